"""Documents for an index: every form they come in, the same texts as the BEIR reader, metadata that can be filtered."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from normwise.core.errors import InputError
from normwise.data.beir import read_beir
from normwise.data.contents import modality_of
from normwise.data.document_rows import read_queries
from normwise.data.documents import indexed_text, read_documents, shown_text, stored_modality
from normwise.data.pictures import Picture


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


TRICKY = [
    {"_id": "a", "title": "A title", "text": "and a text"},
    {"_id": "b", "title": "", "text": "no title"},
    {"_id": "c", "title": "only a title", "text": ""},
    {"_id": "d", "title": "\u200b", "text": "a title that nobody sees"},
    {"_id": "e", "text": " blanks stay "},
    {"_id": "f", "title": None, "text": "none"},
]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", TRICKY)
    write_lines(folder / "queries.jsonl", [{"_id": "q", "text": "which?"}, {"_id": "r", "text": "which?"}, {"_id": "s", "text": "what?"}])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    return folder


def test_a_beir_folder_gives_the_texts_that_its_judgements_are_read_with(folder):
    found, judged = read_documents(folder), read_beir(folder, on_bad_rows="refuse")[0].test
    assert (found.ids, found.texts) == (judged.corpus.ids, judged.corpus.texts)
    assert found.queries == ("which?", "what?")
    assert found.metadata == ()


def test_judgements_and_queries_are_not_needed(folder):
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "queries.jsonl").unlink()
    assert read_documents(folder).queries == ()
    assert read_documents(folder / "corpus.jsonl").ids == tuple("abcdef")


@pytest.mark.parametrize("packed", [False, True])
def test_the_other_side_of_a_folder_is_no_corpus(folder, packed):
    """As bare texts the queries would be indexed in silence, and every query would find itself."""
    queries = folder / "queries.jsonl"
    if packed:
        queries = queries.rename(folder / "queries.jsonl.gz")
        queries.write_bytes(gzip.compress(queries.read_bytes()))
    with pytest.raises(
        InputError,
        match=rf"{queries} holds queries, and the candidates are in {folder / 'corpus.jsonl'}: give the folder, {folder}; .* copy",
    ):
        read_documents(queries)
    with pytest.raises(InputError, match=rf"test\.tsv holds judgements, and the candidates are in .*: give the folder, {folder}$"):
        read_documents(folder / "qrels" / "test.tsv")
    copy = folder / ("questions.jsonl.gz" if packed else "questions.jsonl")
    copy.write_bytes(queries.read_bytes())
    assert read_documents(copy).ids == ("q", "r", "s")
    (folder / "corpus.jsonl").unlink()
    assert read_documents(queries).ids == ("q", "r", "s")


def test_a_packed_corpus_is_the_same(folder):
    plain = read_documents(folder)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    packed = read_documents(folder)
    assert (packed.ids, packed.texts, packed.queries) == (plain.ids, plain.texts, plain.queries)


def test_flat_metadata_stay_and_the_rest_is_told(tmp_path):
    rows = [
        {"_id": "a", "text": "x", "metadata": {"year": 2020, "score": 0.5, "free": True, "lang": "de", "tags": ["t"], "gone": None}},
        {"_id": "b", "text": "y"},
        {"_id": "c", "text": "z", "metadata": {"tags": {}, "score": float("nan")}},
        {"_id": "d", "text": "z", "metadata": "a text"},
    ]
    found = read_documents(write_lines(tmp_path / "corpus.jsonl", rows))
    assert found.metadata == ({"year": 2020, "score": 0.5, "free": True, "lang": "de"}, {}, {}, {})
    assert [type(value) for value in found.metadata[0].values()] == [int, float, bool, str]
    assert "metadata 'tags' of 2 rows is no text, number or truth value: left out" in found.notes
    assert len(found.notes) == 3


def test_lines_and_a_column_of_texts_are_numbered(tmp_path):
    (tmp_path / "texts.txt").write_text("first\nsecond\n")
    (tmp_path / "texts.csv").write_text("text,other\nfirst,1\nsecond,2\n")
    for name in ("texts.txt", "texts.csv"):
        found = read_documents(tmp_path / name)
        assert (found.ids, found.texts) == (("0", "1"), ("first", "second"))


def test_pairs_give_their_distinct_candidates_and_their_queries(tmp_path):
    path = write_lines(
        tmp_path / "pairs.jsonl", [{"query": "q", "positive": "x", "negative": "y"}, {"query": "r", "positive": "x", "negative": "z"}]
    )
    found = read_documents(path)
    assert found.texts == ("x", "y", "z")
    assert found.queries == ("q", "r")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"text": "x"}, "line 2, column _id: expected a text, got None"),
        ({"_id": "a", "text": "x"}, r"line 2, column _id: 'a' stands there twice \(line 1\)"),
        ({"_id": "b"}, "line 2, column text: is missing"),
        ({"_id": "b", "text": "  "}, "line 2, column text: is empty or whitespace"),
        ({"_id": "b", "title": 3, "text": "x"}, "line 2, column title: is int, not text"),
    ],
)
def test_a_bad_row_is_named(tmp_path, row, words):
    path = write_lines(tmp_path / "corpus.jsonl", [{"_id": "a", "text": "x"}, row])
    with pytest.raises(InputError, match=words):
        read_documents(path)


def test_an_empty_corpus_and_an_unknown_name_are_refused(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("")
    with pytest.raises(InputError, match="holds no usable row"):
        read_documents(folder)
    with pytest.raises(InputError, match="data 'pyhton-docs' is unknown: did you mean python-docs"):
        read_documents("pyhton-docs")


def test_a_corpus_whose_first_row_lacks_its_id_is_no_file_of_texts(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "red"}\n{"_id": "b", "text": "blue"}\n')
    with pytest.raises(InputError, match=r"c\.jsonl, line 1, column _id: expected a text, got None"):
        read_documents(tmp_path / "c.jsonl")


def test_bad_rows_of_pairs_are_refused_with_a_way_out_that_there_is(tmp_path):
    (tmp_path / "pairs.csv").write_text("anchor,positive\nred,a red one\nblue,\n")
    with pytest.raises(InputError, match=r"row 3, column positive: .*; repair these rows, or take them out$"):
        read_documents(str(tmp_path / "pairs.csv"))


def write_pictures(folder, *names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (40 * number, 90, 20)).save(folder / name)


def test_rows_of_pictures_texts_and_both(tmp_path):
    write_pictures(tmp_path, "a.png", "sub/b.jpg")
    path = write_lines(
        tmp_path / "rows.jsonl", [{"image": "a.png"}, {"image": "sub/b.jpg", "text": "like <image> but red"}, {"text": "words"}]
    )
    found = read_documents(path)
    assert found.ids == ("0", "1", "2")
    assert [modality_of(content) for content in found.contents] == ["image", "text+image", "text"]
    assert [part if isinstance(part, str) else part.name for part in found.contents[1].parts] == ["like", "sub/b.jpg", "but red"]
    assert [shown_text(text) for text in found.texts] == ["[a.png]", "like [sub/b.jpg] but red", "words"]
    assert [stored_modality(text) for text in found.texts] == ["image", "text+image", "text"]


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_tables_of_pictures(tmp_path, suffix, delimiter):
    write_pictures(tmp_path, "a.png", "b.png")
    path = tmp_path / f"rows.{suffix}"
    path.write_text("\n".join(delimiter.join(row) for row in (("image", "_id", "text"), ("a.png", "x", ""), ("b.png", "y", "both"))) + "\n")
    found = read_documents(path)
    assert found.ids == ("x", "y")
    assert [modality_of(content) for content in found.contents] == ["image", "text+image"]


def test_a_corpus_with_an_image_column_keeps_ids_and_metadata(tmp_path):
    write_pictures(tmp_path, "a.png")
    rows = [{"_id": "p", "title": "T", "image": "a.png", "metadata": {"year": 3}}, {"_id": "q", "text": "plain", "metadata": {"year": 4}}]
    found = read_documents(write_lines(tmp_path / "corpus.jsonl", rows))
    assert found.ids == ("p", "q")
    assert [shown_text(text) for text in found.texts] == ["[a.png] T", "plain"]
    assert found.metadata == ({"year": 3}, {"year": 4})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"image": "../out.png"}, r"rows\.jsonl, line 1, column image: '\.\./out\.png' leads out"),
        ({"image": "gone.png"}, r"line 1, column image: 'gone\.png' does not exist"),
        ({"image": "https://example.org/a.png"}, r"line 1, column image: .* is a URL"),
        ({"image": 3}, r"line 1, column image: 3 .* is not the name of a picture"),
        ({"image": "bad.png"}, r"line 1, column image: picture bad\.png"),
        ({"image": "empty.png"}, r"line 1, column image: picture empty\.png is empty"),
        ({"image": "a.png", "text": "<image> and <image>"}, r"line 1, column image: the text has 2 <image> for 1 picture"),
        ({"image": "a.png", "_id": ""}, r"line 1, column _id: expected a text"),
        ({"image": "", "text": ""}, r"line 1, column text: is empty"),
    ],
)
def test_rows_of_pictures_that_cannot_be_used_are_named(tmp_path, row, words):
    folder = tmp_path / "inside"
    write_pictures(tmp_path, "out.png", "inside/a.png")
    (folder / "bad.png").write_text("no picture")
    (folder / "empty.png").write_bytes(b"")
    with pytest.raises(InputError, match=words):
        read_documents(write_lines(folder / "rows.jsonl", [row]))


def test_a_text_that_poses_as_a_picture_is_refused():
    stored = indexed_text(Picture.of_bytes(b"x", name="cat.png"))
    with pytest.raises(InputError, match="a text ends like what an index keeps of a picture"):
        indexed_text(stored)
    assert indexed_text(stored + ".") == stored + "."


def kinds(contents):
    return [modality_of(content) for content in contents]


def test_a_picture_in_a_later_row_is_seen(tmp_path):
    write_pictures(tmp_path, "photos/car.png")
    found = read_documents(write_lines(tmp_path / "rows.jsonl", [{"text": "a"}, {"text": "b", "image": "photos/car.png"}]))
    assert [shown_text(text) for text in found.texts] == ["a", "[photos/car.png] b"]


def test_pairs_may_have_pictures_alone_as_positives(tmp_path):
    write_pictures(tmp_path, "a.png", "b.png")
    rows = [{"query": "red", "positive_image": "a.png"}, {"query": "blue", "positive_image": "b.png", "negative": "words"}]
    found = read_documents(write_lines(tmp_path / "pairs.jsonl", rows))
    assert sorted(kinds(found.contents)) == ["image", "image", "text"]
    assert found.queries == ("red", "blue")


def test_pictures_in_columns_of_pairs_are_no_texts(tmp_path):
    write_pictures(tmp_path, "a.png")
    path = write_lines(tmp_path / "rows.jsonl", [{"query_image": "a.png"}])
    for read in (read_documents, read_queries):
        with pytest.raises(InputError, match=r"query_image is a column of pairs, .*: name it image"):
            read(path)


def png(color):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3), color).save(buffer, format="PNG")
    return buffer.getvalue()


def test_parquet_is_read_with_its_pictures_ids_and_metadata(tmp_path):
    write_pictures(tmp_path, "a.png")
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"image": ["a.png", None], "text": [None, "words"]}), path)
    found = read_documents(path)
    assert (found.ids, kinds(found.contents)) == (("0", "1"), ["image", "text"])
    pq.write_table(pa.table({"image": ["a.png"]}), path)
    assert kinds(read_documents(path).contents) == ["image"]
    cells = [{"bytes": png("red"), "path": None}, {"bytes": None, "path": "a.png"}, {"bytes": None, "path": None}]
    pq.write_table(
        pa.table({"_id": ["x", "y", "z"], "image": cells, "text": ["t", "u", "v"], "metadata": [{"year": year} for year in (1, 2, 3)]}),
        path,
    )
    found = read_documents(path)
    assert (found.ids, kinds(found.contents)) == (("x", "y", "z"), ["text+image", "text+image", "text"])
    assert found.contents[0].pictures[0].encoded() == png("red")
    assert [shown_text(text) for text in found.texts] == ["[rows.parquet, row 1] t", "[a.png] u", "v"]
    assert found.metadata == ({"year": 1}, {"year": 2}, {"year": 3})
    pq.write_table(pa.table({"image": [b"no picture"]}), path)
    with pytest.raises(InputError, match=r"rows\.parquet, row 1, column image: picture rows\.parquet, row 1"):
        read_documents(path)
    pq.write_table(pa.table({"query": ["q"], "positive": ["p"]}), path)
    assert read_documents(path).contents == ("p",)


@pytest.mark.parametrize("name", ["rows.jsonl", "pairs.jsonl", "corpus.jsonl"])
def test_pictures_elsewhere_need_their_root_and_the_message_names_the_option(tmp_path, name):
    write_pictures(tmp_path, "photos/a.png")
    row = {"query": "q", "positive_image": "../photos/a.png"} if name == "pairs.jsonl" else {"image": "../photos/a.png"}
    (tmp_path / "rows").mkdir()
    path = write_lines(tmp_path / "rows" / name, [row | ({"_id": "x"} if name == "corpus.jsonl" else {})])
    source = path.parent if name == "corpus.jsonl" else path
    with pytest.raises(InputError, match=r"leads out of .*: give --image-root, a folder that holds all") as refused:
        read_documents(source)
    assert "data.image_root" not in str(refused.value)
    row = json.loads(path.read_text())
    write_lines(path, [{column: value.removeprefix("../") for column, value in row.items()}])
    assert kinds(read_documents(source, image_root=tmp_path).contents) == ["image"]


def test_a_root_that_is_no_folder_or_serves_nothing_is_refused(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", [{"text": "a"}])
    with pytest.raises(InputError, match=r"image_root: .*gone is not a folder"):
        read_documents(path, image_root=tmp_path / "gone")
    with pytest.raises(InputError, match=r"image_root is .*rows\.jsonl names no picture: leave it out"):
        read_documents(path, image_root=tmp_path)


def test_rows_without_ids_keep_their_metadata(tmp_path):
    write_pictures(tmp_path, "a.png")
    rows = [{"image": "a.png", "metadata": {"year": 3, "tags": ["x"]}}, {"text": "b", "metadata": {"year": 4}}]
    found = read_documents(write_lines(tmp_path / "rows.jsonl", rows))
    assert (found.ids, found.metadata) == (("0", "1"), ({"year": 3}, {"year": 4}))
    assert found.notes == ("metadata 'tags' of 1 rows is no text, number or truth value: left out",)
    found = read_documents(write_lines(tmp_path / "texts.jsonl", [{"text": "b", "metadata": {"year": 4}}]))
    assert (found.texts, found.metadata) == (("b",), ({"year": 4},))


def test_queries_of_a_file_may_be_pictures(tmp_path):
    write_pictures(tmp_path, "a.png")
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    assert read_queries(tmp_path / "lines.txt") == ["one", "two"]
    rows = [{"_id": "a", "text": "one"}, {"_id": "b", "text": "like this", "image": "a.png"}, {"_id": "c", "image": "a.png"}]
    assert kinds(read_queries(write_lines(tmp_path / "queries.jsonl", rows))) == ["text", "text+image", "image"]
    (tmp_path / "rows.csv").write_text("image,text\na.png,\n,words\n")
    assert kinds(read_queries(tmp_path / "rows.csv")) == ["image", "text"]
    with pytest.raises(
        InputError, match=r"line 1, column image: '\.\./a\.png' leads out of .*: put the picture into the folder of the file$"
    ):
        read_queries(write_lines(tmp_path / "bad.jsonl", [{"image": "../a.png"}]))


def test_a_beir_folder_gives_the_pictures_that_its_judgements_are_read_with(folder):
    write_pictures(folder, "a.png", "b.png")
    rows = [{"_id": "a", "image": "a.png"}, {"_id": "b", "title": "T", "text": "like <image> but red", "image": "b.png"}]
    write_lines(folder / "corpus.jsonl", [*rows, {"_id": "c", "text": "words"}])
    write_lines(folder / "queries.jsonl", [{"_id": "q", "text": "which?"}, {"_id": "r", "image": "b.png"}])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\nr\tb\t1\n")
    found, judged = read_documents(folder), read_beir(folder, on_bad_rows="refuse")[0].test
    assert (found.ids, found.contents) == (judged.corpus.ids, judged.corpus.contents)
    assert found.texts == tuple(map(indexed_text, judged.corpus.contents))
    assert found.queries == judged.queries
    assert kinds(found.contents) == ["image", "text+image", "text"]
