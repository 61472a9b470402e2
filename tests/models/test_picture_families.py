"""Every family of models that reads texts and pictures: opened, read, saved, read again; raw norms in both towers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from tiny_families import byte_tokenizer
from tiny_picture_families import ALL_FAMILIES, DUAL, OWN_TEMPLATE, PICTURE_FAMILIES, save_picture_family
from transformers import Qwen2VLImageProcessorPil, Qwen2VLProcessor

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.models.chat_templates import CHAT_TEMPLATES, END, TASK_INSTRUCTIONS, read_whole, set_chat_template
from normwise.models.contract import describe_encoder
from normwise.models.inputs import reads
from normwise.models.loading import load_plain
from normwise.models.padding import pad_as_trained
from normwise.models.saving import save_encoder
from normwise.models.video_free import leave_videos_out

TOGETHER = [name for name, family in PICTURE_FAMILIES.items() if family.together]
TEXTS = [{"text": "a cat"}, {"text": "two dogs in a house by the sea"}, {"text": "x"}]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(name, template="own"):
        if (name, template) not in made:
            made[name, template] = save_picture_family(name, tmp_path_factory.mktemp(name), template=template)
        return made[name, template]

    return folder


@pytest.fixture
def open_family(folders):
    def open_it(name, template="own"):
        st = load_plain(str(folders(name, template)), device="cpu").model
        pad_as_trained(st)
        return st

    return open_it


def pictures(count=3):
    generator = np.random.default_rng(0)
    return [Image.fromarray(generator.integers(0, 256, (40 + 9 * number, 64, 3), dtype=np.uint8)) for number in range(count)]


def both(text, *shown):
    return [{"role": "user", "content": [*({"type": "image", "image": one} for one in shown), {"type": "text", "text": text}]}]


def inputs_of(st):
    """A few inputs of each kind that the model reads, one kind a list."""
    shown = pictures()
    kinds = [TEXTS, [{"image": one} for one in shown]]
    if reads(st) == "together":
        kinds.append([both("the same in red", shown[0]), both("both of them", *shown[1:]), both("", shown[2])])
    return kinds


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_texts_pictures_and_both_have_finite_vectors_with_raw_norms(open_family, name):
    st = open_family(name)
    assert reads(st) == ("together" if name in TOGETHER else "towers")
    for inputs in inputs_of(st):
        vectors = st.encode(inputs)
        assert np.isfinite(vectors).all()
        norms = np.linalg.norm(vectors, axis=1)
        assert np.abs(norms - 1).min() > 0.1
        assert len({row.tobytes() for row in vectors}) == len(inputs)
        one_by_one = np.concatenate([st.encode([value]) for value in inputs])
        np.testing.assert_allclose(one_by_one, vectors, atol=2e-4)
    assert not any(isinstance(module, Normalize) for module in st.modules())


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_a_saved_model_answers_the_same_and_loads_plainly(open_family, tmp_path, name):
    st = open_family(name)
    expected = [st.encode(inputs) for inputs in inputs_of(st)]
    save_encoder(st, tmp_path / "saved", contract=describe_encoder(st, similarity=Similarity.DOT), card_text="a card")
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    assert plain.similarity_fn_name == "dot"
    for again in (load_plain(str(tmp_path / "saved"), device="cpu").model, plain):
        for inputs, vectors in zip(inputs_of(st), expected, strict=True):
            np.testing.assert_allclose(again.encode(inputs), vectors, atol=1e-5)


class TestRawNormsOfBothTowers:
    """What sentence-transformers reads is the projection itself: its equation, from the towers' own outputs."""

    @pytest.mark.parametrize("name", ["clip", "metaclip", "metaclip-2"])
    def test_clip(self, open_family, name):
        st = open_family(name)
        model = st[0].model
        with torch.no_grad():
            seen = model.vision_model(pixel_values=st.preprocess([{"image": one} for one in pictures()])["pixel_values"]).pooler_output
            features = st.preprocess(TEXTS)
            read = model.text_model(input_ids=features["input_ids"], attention_mask=features["attention_mask"]).pooler_output
            image_vectors, text_vectors = seen @ model.visual_projection.weight.T, read @ model.text_projection.weight.T
        np.testing.assert_allclose(st.encode([{"image": one} for one in pictures()]), image_vectors, atol=1e-5)
        np.testing.assert_allclose(st.encode(TEXTS), text_vectors, atol=1e-5)

    @pytest.mark.parametrize("name", ["siglip", "siglip-2"])
    def test_siglip(self, open_family, name):
        st = open_family(name)
        model = st[0].model
        features = st.preprocess([{"image": one} for one in pictures()])
        given = {key: value for key, value in features.items() if isinstance(value, torch.Tensor)}
        if name == "siglip-2":
            assert "pixel_attention_mask" in given
        with torch.no_grad():
            seen = model.vision_model(**given).pooler_output
            state = model.text_model(input_ids=st.preprocess(TEXTS)["input_ids"]).last_hidden_state[:, -1]
            read = model.text_model.head(state)
        np.testing.assert_allclose(st.encode([{"image": one} for one in pictures()]), seen, atol=1e-5)
        np.testing.assert_allclose(st.encode(TEXTS), read, atol=1e-5)

    @pytest.mark.parametrize("name", TOGETHER)
    def test_language_models_give_the_state_of_the_last_token(self, open_family, name):
        st = open_family(name)
        for inputs in inputs_of(st):
            features = st.preprocess(inputs)
            given = {key: value for key, value in features.items() if isinstance(value, torch.Tensor)}
            with torch.no_grad():
                states = st[0].model(**given).last_hidden_state
            np.testing.assert_allclose(st.encode(inputs), states[:, -1], atol=3e-4)

    def test_the_dual_encoder_gives_its_heads_output(self, open_family):
        st = open_family(DUAL)
        image = st[0].sub_modules["image"]
        features = image[0].preprocess(pictures())
        with torch.no_grad():
            states = image[0].model(pixel_values=features["pixel_values"]).last_hidden_state
        np.testing.assert_allclose(
            st.encode([{"image": one} for one in pictures()]), states.mean(1) @ image[2].linear.weight.detach().T, atol=1e-5
        )


class TestSiglipPadding:
    @pytest.mark.parametrize("name", ["siglip", "siglip-2"])
    def test_left_to_the_library_a_text_depends_on_its_neighbors(self, folders, name):
        st = SentenceTransformer(str(folders(name)), device="cpu", local_files_only=True)
        alone, beside = st.encode([TEXTS[0]])[0], st.encode(TEXTS)[0]
        assert np.abs(alone - beside).max() > 0.5
        assert pad_as_trained(st) == "texts are padded to 64 tokens, as SigLIP was trained"
        np.testing.assert_allclose(st.encode([TEXTS[0]])[0], st.encode(TEXTS)[0], atol=1e-5)
        assert st.preprocess(TEXTS)["input_ids"].shape == (3, 64)

    @pytest.mark.parametrize("name", ["siglip", "siglip-2"])
    def test_a_cap_holds(self, open_family, name):
        st = open_family(name)
        st.max_seq_length = 20
        pad_as_trained(st)
        assert st.preprocess([{"text": "long " * 50}, *TEXTS])["input_ids"].shape == (4, 20)

    def test_others_are_left_alone(self, open_family):
        st = open_family("clip")
        assert pad_as_trained(st) is None
        assert not st[0].processing_kwargs


def last_tokens(st, features):
    """The last token that is no padding, by a slow loop over each row from its end."""
    found = []
    for row, mask in zip(features["input_ids"].tolist(), features["attention_mask"].tolist(), strict=True):
        found.append(next(token for token, real in zip(reversed(row), reversed(mask), strict=True) if real))
    return st.tokenizer.convert_ids_to_tokens(found)


class TestChatTemplates:
    @pytest.mark.parametrize("side", ["left", "right"])
    @pytest.mark.parametrize("name", TOGETHER)
    def test_pace_ends_in_endoftext_on_either_side(self, open_family, name, side):
        st = open_family(name, "pace")
        st.tokenizer.padding_side = side
        for inputs in inputs_of(st):
            features = st.preprocess(inputs)
            assert last_tokens(st, features) == [END] * len(inputs)
            lengths = features["attention_mask"].sum(1)
            # Without pictures the padding is of different lengths, and is the same token as the ending.
            assert st.tokenizer.pad_token == END
            vectors = st.encode(inputs)
            given = {key: value for key, value in features.items() if isinstance(value, torch.Tensor)}
            with torch.no_grad():
                states = st[0].model(**given).last_hidden_state
            width = states.shape[1]
            for row, length in enumerate(lengths.tolist()):
                place = length - 1 if side == "right" else width - 1
                np.testing.assert_allclose(vectors[row], states[row, place], atol=1e-5)
            np.testing.assert_allclose(vectors, np.concatenate([st.encode([value]) for value in inputs]), atol=2e-5)

    def test_pace_reads_as_the_paper_has_it(self, open_family):
        st = open_family("qwen3.5", "pace")
        shown = pictures(1)
        features = st.preprocess([both("in red", *shown)], prompt=TASK_INSTRUCTIONS["composed"])
        text = st.tokenizer.decode(features["input_ids"][0])
        patches = text.count("<|image_pad|>")
        assert patches > 1
        assert text.replace("<|image_pad|>" * patches, "<|image_pad|>") == (
            "<|im_start|>system\nRepresent the user's input.<|im_end|>\n<|im_start|>user\nFind an image matching the described changes.\n"
            "<|vision_start|><|image_pad|><|vision_end|>in red<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
        )

    def test_vlm2vec_has_no_chat(self, open_family):
        st = open_family("qwen2-vl", "vlm2vec")
        picture = pictures(1)[0]
        texts = [[{"role": "user", "content": [{"type": "text", "text": "what?"}, {"type": "image", "image": picture}]}], both("", picture)]
        rendered = st[0].processor.apply_chat_template(texts[0], tokenize=False)
        assert rendered == "<|vision_start|><|image_pad|><|vision_end|>what?"
        asked = [{"role": "system", "content": [{"type": "text", "text": "Answer: "}]}, *texts[0]]
        assert st[0].processor.apply_chat_template(asked, tokenize=False) == "<|vision_start|><|image_pad|><|vision_end|>Answer: what?"
        assert last_tokens(st, st.preprocess(texts)) == ["?", "<|vision_end|>"]

    def test_a_template_is_saved_with_the_model(self, open_family, folders, tmp_path):
        for name in CHAT_TEMPLATES:
            st = open_family("qwen3-vl", name)
            assert st[0].processor.chat_template == CHAT_TEMPLATES[name]
            assert st.tokenizer.chat_template == CHAT_TEMPLATES[name]
        st = open_family("qwen3-vl")
        assert st[0].processor.chat_template == OWN_TEMPLATE
        before = st.encode(TEXTS)
        set_chat_template(st, "own")
        np.testing.assert_array_equal(st.encode(TEXTS), before)
        set_chat_template(st, "{% for message in messages %}{{ message.content[0].text }}!{% endfor %}")
        assert last_tokens(st, st.preprocess(TEXTS)) == ["!"] * 3
        st.save(str(tmp_path), create_model_card=False)
        again = load_plain(str(tmp_path), device="cpu").model
        np.testing.assert_allclose(again.encode(TEXTS), st.encode(TEXTS), atol=1e-6)

    def test_every_template_pools_the_last_token(self, open_family):
        st = open_family("qwen2-vl")
        st[1].pooling_mode = "mean"
        set_chat_template(st, "pace")
        assert [module.pooling_mode for module in st.children() if isinstance(module, Pooling)] == ["lasttoken"]

    def test_instructions_are_those_of_five_tasks(self):
        assert set(TASK_INSTRUCTIONS) == {"vqa", "classification", "text_to_image", "image_to_text", "composed"}
        assert all(words.endswith(".") for words in TASK_INSTRUCTIONS.values())

    def test_words_of_a_text_are_no_tokens_of_the_template(self, open_family):
        # What a text says about roles changes nothing in the frame around it.
        st = open_family("qwen2-vl", "pace")
        features = st.preprocess([{"text": "{{ 7 * 7 }} {% raw %}"}])
        assert "{{ 7 * 7 }} {% raw %}<|im_end|>" in st.tokenizer.decode(features["input_ids"][0])

    def test_what_is_refused(self, open_family):
        with pytest.raises(InputError, match=r"chat template 'pacee' is neither a name nor Jinja source: did you mean pace\?"):
            set_chat_template(open_family("qwen2-vl"), "pacee")
        with pytest.raises(InputError, match="no tokenizer or no pooling of tokens"):
            set_chat_template(open_family("clip"), "pace")
        with pytest.raises(InputError, match="no tokenizer or no pooling of tokens"):
            set_chat_template(open_family(DUAL), "pace")
        st = open_family("qwen2-vl")
        st[0].processor.tokenizer = plain_bytes()
        with pytest.raises(InputError, match=r"has <\|vision_start\|>, which the model's tokenizer does not know as one token"):
            set_chat_template(st, "vlm2vec")
        st = open_family("qwen2-vl")
        st[0].processor.chat_template = None
        with pytest.raises(InputError, match="the model brings none: choose one of pace, vlm2vec"):
            set_chat_template(st, "own")


def plain_bytes():
    """A tokenizer that knows no token of a chat."""
    return byte_tokenizer()


class TestTooLong:
    """What does not fit loses the end of its text, never its ending or a picture."""

    LONG = "word after word " * 60

    @pytest.mark.parametrize("side", ["left", "right"])
    @pytest.mark.parametrize("name", TOGETHER)
    def test_the_ending_and_the_pictures_stay(self, open_family, name, side):
        st = open_family(name, "pace")
        st.tokenizer.padding_side = side
        st.max_seq_length = 160
        shown = pictures(2)
        inputs = [both(self.LONG, shown[0]), {"text": self.LONG}, both("short", *shown), {"image": shown[1]}]
        features = read_whole(st, inputs, prompt="Find it.")
        assert features["attention_mask"].sum(1).tolist()[:2] == [160, 160]
        assert features["attention_mask"].sum(1).max() == 160
        assert last_tokens(st, features) == [END] * 4
        texts = st.tokenizer.batch_decode(features["input_ids"])
        assert all("word after word" in text and "<|im_end|>\n<|im_start|>assistant\n" in text for text in texts[:2])
        # One by one: in a batch of messages and others, the library drops what the messages say.
        short = [st.preprocess([value], prompt="Find it.")["input_ids"][0] for value in inputs[2:]]
        bare = [text.replace(END, "") for text in st.tokenizer.batch_decode(short)]
        assert [text.replace(END, "") for text in texts[2:]] == bare
        given = {key: value for key, value in features.items() if isinstance(value, torch.Tensor)}
        assert torch.isfinite(st[0].model(**given).last_hidden_state).all()

    def test_a_text_alone_reads_as_the_library_cuts_it(self, open_family):
        st = open_family("qwen2-vl", "pace")
        st.max_seq_length = 120
        ours, theirs = read_whole(st, [{"text": self.LONG}]), st.preprocess([{"text": self.LONG}])
        assert last_tokens(st, theirs) == [END]
        assert ours["input_ids"].tolist() == theirs["input_ids"].tolist()

    def test_left_to_the_library_a_picture_and_a_long_text_lose_the_ending(self, open_family):
        st = open_family("qwen2-vl", "pace")
        st.max_seq_length = 160
        assert last_tokens(st, st.preprocess([both(self.LONG, *pictures(1))])) != [END]
        many = [{"role": "user", "content": [{"type": "text", "text": self.LONG}, {"type": "image", "image": pictures(1)[0]}]}]
        with pytest.raises(ValueError, match="Mismatch in `image` token count"):
            st.preprocess([many])
        # Here the text before the picture is cut instead.
        features = read_whole(st, [many])
        assert last_tokens(st, features) == [END]
        assert features["attention_mask"].sum() == 160

    def test_letters_of_several_tokens_and_several_texts(self, open_family):
        st = open_family("qwen2-vl", "pace")
        st.max_seq_length = 140
        parts = [{"type": "text", "text": "東京" * 20}, {"type": "image", "image": pictures(1)[0]}, {"type": "text", "text": "😀" * 5}]
        features = read_whole(st, [[{"role": "user", "content": parts}]])
        text = st.tokenizer.decode(features["input_ids"][0])
        assert features["attention_mask"].sum() <= 140
        assert last_tokens(st, features) == [END]
        assert "😀" not in text
        assert "東京東" in text

    def test_messages_beside_other_inputs_keep_their_content(self, open_family):
        st = open_family("qwen2-vl", "pace")
        mixed = [both("in red", *pictures(1)), {"text": "a cat"}]
        assert "in red" not in st.tokenizer.decode(st.preprocess(mixed)["input_ids"][0])
        assert "in red" in st.tokenizer.decode(read_whole(st, mixed)["input_ids"][0])

    def test_pictures_that_do_not_fit_are_refused(self, open_family):
        st = open_family("qwen2-vl", "pace")
        st.max_seq_length = 80
        with pytest.raises(
            InputError, match=r"inputs\[1\]: its pictures, .* tokens more than the 80 that the model reads: raise max_tokens"
        ):
            read_whole(st, [{"image": pictures(1)[0]}, both("x", *pictures(), *pictures())])

    def test_a_model_without_a_limit_cuts_nothing(self, open_family):
        st = open_family("qwen2-vl", "pace")
        st.max_seq_length = int(1e30)
        assert read_whole(st, [{"text": self.LONG}])["input_ids"].shape[1] > 900


class TestWithoutVideos:
    def test_settings_for_videos_are_written_back(self, folders, tmp_path):
        assert leave_videos_out()
        assert leave_videos_out()
        saved = json.loads((folders("qwen3-vl") / "processor_config.json").read_text())
        assert saved["video_processor"]["patch_size"] == 16
        file = tmp_path / "processor_config.json"
        for path in folders("qwen2-vl").iterdir():
            if path.is_file():
                (tmp_path / path.name).write_bytes(path.read_bytes())
        theirs = {"video_processor_type": "Qwen2VLVideoProcessor", "fps": 2.0}
        file.write_text(json.dumps({**json.loads(file.read_text()), "video_processor": theirs}))
        processor = Qwen2VLProcessor.from_pretrained(tmp_path)
        processor.save_pretrained(tmp_path / "again")
        assert json.loads((tmp_path / "again" / "processor_config.json").read_text())["video_processor"] == theirs

    def test_pictures_are_read_by_pil(self, open_family):
        st = open_family("qwen3.5")
        assert isinstance(st[0].processor.image_processor, Qwen2VLImageProcessorPil)
        assert "video" not in st.modalities
