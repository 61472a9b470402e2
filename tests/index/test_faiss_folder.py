"""The folder of the embedded index: whole or not at all, every byte checked, nothing pickled."""

import json
import pickle
import sys
from contextlib import closing

import numpy as np
import pytest
from contract import mixed, names

from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index import faiss_build, faiss_index, opening
from normwise.index.build import build_index
from normwise.index.opening import open_index

KINDS = [
    {"similarity": "dot"},
    {"similarity": "cosine", "method": "hnsw"},
    {"similarity": "dot", "method": "ivf"},
    {"similarity": "dot", "storage": "int8"},
    {"similarity": "dot", "storage": "pq"},
    {"similarity": "dot", "storage": "binary"},
]
VECTORS = mixed(60, 6, seed=1)


def built(folder, **settings):
    return build_index(
        IndexConfig(**({"similarity": "dot"} | settings)),
        folder,
        ids=names(60),
        vectors=VECTORS,
        texts=[f"text {row}" for row in range(60)],
        lengths=np.arange(60),
        metadata=[{"row": row} for row in range(60)],
    )


@pytest.mark.parametrize("settings", KINDS)
def test_every_file_is_checked_on_opening(tmp_path, settings):
    built(tmp_path / "i", **settings).close()
    files = sorted(path for path in (tmp_path / "i").iterdir() if path.name != "index.json")
    assert {path.name for path in files} == set(json.loads((tmp_path / "i" / "index.json").read_text())["files"])
    for path in files:
        whole = path.read_bytes()
        assert not whole.startswith(pickle.dumps(0)[:2])
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 1
        for bad in (whole[: len(whole) // 2], bytes(changed), whole + b"\0"):
            path.write_bytes(bad)
            with pytest.raises(InputError, match=rf"{path.name} is cut short or was changed: .*; copy the folder again, or build"):
                open_index(tmp_path / "i")
        path.unlink()
        with pytest.raises(InputError, match=rf"{path.name} is missing, and index.json names it: copy the folder again"):
            open_index(tmp_path / "i")
        path.write_bytes(whole)
    assert len(open_index(tmp_path / "i")) == 60


def test_folders_that_are_no_index(tmp_path):
    with pytest.raises(InputError, match=r"gone does not exist: expected a folder that build_index made"):
        open_index(tmp_path / "gone")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file is not a folder"):
        open_index(tmp_path / "file")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"other holds no index.json: it is not an index of normwise"):
        open_index(tmp_path / "other")
    for text, message in (("{", "is not valid JSON"), ("[]", "is not the manifest of an index"), ('{"format": 1}', "is not the manifest")):
        (tmp_path / "other" / "index.json").write_text(text)
        with pytest.raises(InputError, match=message):
            open_index(tmp_path / "other")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 2, r"has format 2, and this normwise reads up to 1: update normwise, or build the index again"),
        ("engine", "annoy", r"index.json: engine: "),
        ("candidates", 59, r"index.json was changed: the hash at its end is not that of the rest; copy the folder again"),
        ("similarity", "cosine", r"index.json was changed"),
        ("similarity", "dop", r"index.json was changed"),
        ("method", "hnsw", r"index.json was changed"),
        ("corpus_vectors", "0" * 64, r"index.json was changed"),
        ("recall", 0.5, r"index.json was changed"),
        ("seal", None, r"index.json was changed"),
        ("files", {"../../etc/passwd": "0"}, r"names the file .*, outside its folder"),
    ],
)
def test_manifests_that_do_not_hold(tmp_path, key, value, message):
    built(tmp_path / "i").close()
    path = tmp_path / "i" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match=message):
        open_index(tmp_path / "i")


def test_a_folder_is_replaced_only_when_asked_and_only_when_it_is_an_index(tmp_path):
    built(tmp_path / "i").close()
    settings = IndexConfig(similarity="cosine")
    with pytest.raises(InputError, match=r"exists already: pass --overwrite"):
        build_index(settings, tmp_path / "i", ids=["a"], vectors=np.ones((1, 2)))
    build_index(settings, tmp_path / "i", ids=["a"], vectors=np.ones((1, 2)), overwrite=True).close()
    assert open_index(tmp_path / "i").manifest.similarity == "cosine"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match=r"mine is not an index of normwise: refusing to replace it"):
        build_index(settings, tmp_path / "mine", ids=["a"], vectors=np.ones((1, 2)), overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_build_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(faiss_build.SelfTest, "recall", lambda *_: 0.999)
    with pytest.raises(WorkError, match=r"the exact index has recall@10 0.999000 in its self-test; expected 1"):
        built(tmp_path / "i")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("settings", KINDS)
def test_changes_are_on_disk_only_when_saved(tmp_path, settings):
    index = built(tmp_path / "i", **settings)
    queries = mixed(5, 6, seed=2)
    index.delete(["d3", "d4"])
    index.add(["new"], VECTORS[:1] * np.float32(1.5), texts=["fresh"], lengths=np.array([9]), metadata=[{"row": 1, "extra": "x"}])
    other = open_index(tmp_path / "i")
    assert len(other) == 60
    other.close()
    index.save()
    found = index.search(queries, k=8)
    again = open_index(tmp_path / "i")
    for name in ("ids", "scores", "norms", "lengths"):
        assert np.array_equal(getattr(found, name), getattr(again.search(queries, k=8), name))
    assert again.manifest == index.manifest
    assert again.manifest.metadata_keys == ("extra", "row")
    assert again.texts(["new"]) == ["fresh"]
    assert again.search(queries, k=9, where={"row": 1}).counts.tolist() == [2] * 5
    # What was mapped into memory can be changed again.
    again.add(["newer"], VECTORS[:1] * 2, texts=["t"], lengths=np.array([1]), metadata=[{}])
    again.delete(["new"])
    assert len(again) == 59
    again.save()
    assert open_index(tmp_path / "i").manifest.corpus_vectors == again.manifest.corpus_vectors


def test_saving_keeps_what_others_put_into_the_folder(tmp_path):
    index = built(tmp_path / "i")
    (tmp_path / "i" / "calibration.json").write_text("{}")
    (tmp_path / "i" / "notes").mkdir()
    (tmp_path / "i" / "notes" / "a.txt").write_text("mine")
    for _ in range(2):
        index.delete([index.search(VECTORS[:1], k=1).ids[0, 0]])
        index.save()
    assert (tmp_path / "i" / "calibration.json").read_text() == "{}"
    (tmp_path / "i" / "calibration.json").write_text("[]")
    assert (tmp_path / "i" / "notes" / "a.txt").read_text() == "mine"
    assert "calibration.json" not in open_index(tmp_path / "i").manifest.files


def test_a_closed_index_says_so(tmp_path):
    index = built(tmp_path / "i")
    index.close()
    with pytest.raises(WorkError, match=r"was closed: open it again"):
        index.search(VECTORS, k=1)


def test_an_id_without_a_text(tmp_path):
    index = built(tmp_path / "i")
    with pytest.raises(InputError, match=r"ids: 'nobody' is not in the index"):
        index.texts(["nobody"])


def test_an_address_belongs_to_servers(tmp_path):
    built(tmp_path / "i").close()
    with pytest.raises(InputError, match=r"url came, and the index in .* is held by faiss"):
        open_index(tmp_path / "i", url="http://localhost")


def test_without_faiss_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    built(tmp_path / "i").close()
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r'faiss is not installed; run: pip install "normwise\[index\]"'):
        built(tmp_path / "j")
    with pytest.raises(MissingExtraError, match=r"faiss is not installed"):
        open_index(tmp_path / "i")


def test_plain_faiss_reads_what_the_folder_holds(tmp_path):
    built(tmp_path / "i").close()
    import faiss

    index = faiss.read_index(str(tmp_path / "i" / "vectors.faiss"))
    assert np.array_equal(index.reconstruct_n(0, 60), VECTORS)


def test_a_changed_letter_of_the_manifest_is_seen_wherever_it_stands(tmp_path):
    built(tmp_path / "i", method="hnsw").close()
    path = tmp_path / "i" / "index.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), 41):
        changed = bytearray(whole)
        changed[place] ^= 1
        if changed[place : place + 1].isspace():
            continue
        path.write_bytes(bytes(changed))
        with pytest.raises(InputError, match=r"index\.json"):
            open_index(tmp_path / "i")
    path.write_bytes(whole)
    open_index(tmp_path / "i").close()


@pytest.mark.parametrize("text", ["{}", "[]", '{"name": "a project"}', "{", '{"format": 1, "engine": "a", "method": "b", "files": 3}'])
def test_a_folder_with_an_index_json_of_somebody_else_is_never_replaced(tmp_path, text):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.json").write_text(text)
    (tmp_path / "site" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match=r"site is not an index of normwise: refusing to replace it"):
        build_index(IndexConfig(similarity="dot"), tmp_path / "site", ids=["a"], vectors=np.ones((1, 2)), overwrite=True)
    assert (tmp_path / "site" / "thesis.txt").read_text() == "x"


def test_files_of_others_beside_an_index_are_not_replaced_and_its_calibration_stays(tmp_path):
    built(tmp_path / "i").close()
    (tmp_path / "i" / "calibration.json").write_text("{}")
    build_index(IndexConfig(similarity="dot"), tmp_path / "i", ids=["a"], vectors=np.ones((1, 2)), overwrite=True).close()
    assert (tmp_path / "i" / "calibration.json").read_text() == "{}"
    (tmp_path / "i" / "deep").mkdir()
    (tmp_path / "i" / "deep" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"i holds 'deep/notes.txt', which is no part of the index: refusing to replace it; move it away"):
        build_index(IndexConfig(similarity="dot"), tmp_path / "i", ids=["a"], vectors=np.ones((1, 2)), overwrite=True)
    assert (tmp_path / "i" / "deep" / "notes.txt").exists()


@pytest.mark.parametrize("settings", [{}, {"method": "hnsw"}])
def test_a_full_disk_is_told_in_the_words_of_the_system_and_leaves_nothing(tmp_path, monkeypatch, settings):
    import faiss

    def full(_, path):
        raise RuntimeError(f"Error in write_index at index_write.cpp:499: write error in {path}: 3 != 5 (No space left on device)")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(WorkError, match=r"could not write .*/i: No space left on device; free space or choose another folder"):
        built(tmp_path / "i", **settings)
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_change_an_index_the_second_is_told_and_loses_nothing_of_the_first(tmp_path):
    built(tmp_path / "i").close()
    first, second = open_index(tmp_path / "i"), open_index(tmp_path / "i")
    for name, index in (("a", first), ("b", second)):
        index.add([name], VECTORS[:1], texts=["t"], lengths=np.array([1]), metadata=[{}])
    first.save()
    with pytest.raises(WorkError, match=r"i was changed by somebody else since it was opened: nothing was saved; make the change"):
        second.save()
    first.delete(["a"])
    first.save()
    with closing(open_index(tmp_path / "i")) as now:
        assert len(now) == 60
        now.add(["b"], VECTORS[:1], texts=["t"], lengths=np.array([1]), metadata=[{}])
        now.save()
    with closing(open_index(tmp_path / "i")) as now:
        assert now.texts(["b"]) == ["t"]


def test_an_index_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    built(tmp_path / "i").close()
    writer, load, saves = open_index(tmp_path / "i"), faiss_index.Table.load, []

    def interrupted(folder):
        if not saves:
            saves.append(1)
            writer.delete(["d0"])
            writer.add(["new"], VECTORS[:1] * 2, texts=["t"], lengths=np.array([1]), metadata=[{}])
            writer.save()
        return load(folder)

    monkeypatch.setattr(faiss_index.Table, "load", interrupted)
    with closing(open_index(tmp_path / "i")) as read:
        assert read.manifest.corpus_vectors == writer.manifest.corpus_vectors
        assert read.texts(["new"]) == ["t"]


def test_an_index_that_is_gone_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    built(tmp_path / "i").close()
    (tmp_path / "i").rename(tmp_path / "aside")
    monkeypatch.setattr(opening.time, "sleep", lambda _: (tmp_path / "aside").rename(tmp_path / "i"))
    with closing(open_index(tmp_path / "i")) as read:
        assert len(read) == 60


def test_a_path_that_goes_up_through_the_index_itself_is_saved(tmp_path):
    built(tmp_path / "i").close()
    index = open_index(tmp_path / "i" / ".." / "i")
    index.delete(["d0"])
    index.save()
    assert len(open_index(tmp_path / "i")) == 59
