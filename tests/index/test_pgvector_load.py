"""Bulk loads that are cut off: nothing half loaded answers, and the same build goes on where it stopped."""

import shutil
import signal
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from contract import mixed, names
from psycopg import sql

from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index import pgvector_build, pgvector_load
from normwise.index.build import build_index
from normwise.index.opening import open_index
from normwise.index.pgvector_index import open_pgvector
from normwise.index.pgvector_rows import HEADER, TRAILER, RowChunk, column_names, encode_rows
from normwise.index.pgvector_sql import Layout, create_table, staging_name

ROWS, WIDTH = 900, 8
ROW_BYTES = 4 * WIDTH + 128
CHUNK = 100
BELONGS = r"belongs to the index that was built at 20\d\d-.* UTC: open the folder of that build, choose another name, or pass --overwrite"


class Cut(Exception):
    pass


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("normwise.index.pgvector_load.CHUNK_BYTES", CHUNK * ROW_BYTES)
    monkeypatch.setattr("normwise.index.pgvector_load._PIECE_BYTES", 30 * ROW_BYTES)


@pytest.fixture
def load(postgres, tmp_path, table_name):
    """Build the same index each time it is called, in the same folder under the same name."""

    def load(*, log=None, scale=1.0, overwrite=False, folder="index", **settings):
        config = IndexConfig(similarity="dot", engine="pgvector", url=postgres.url, name=table_name, **settings)
        contents = {
            "texts": [f"text {row}" for row in range(ROWS)],
            "lengths": np.arange(ROWS),
            "metadata": [{"third": row % 3} for row in range(ROWS)],
        }
        vectors = np.float32(scale) * mixed(ROWS, WIDTH, seed=1)
        return build_index(config, tmp_path / folder, ids=names(ROWS), vectors=vectors, overwrite=overwrite, log=log, **contents)

    return load


def after(chunks, do):
    """A log that does something once so many chunks are in."""
    seen = []

    def log(line):
        seen.append(line)
        if len([line for line in seen if line.startswith("loaded")]) == chunks and line.startswith("loaded"):
            do()

    log.seen = seen
    return log


def cut():
    raise Cut


def rows_of(run_sql, table):
    columns = "position, id, norm, length, encode(row_hash, 'hex'), vector::text, text, metadata::text"
    return run_sql(sql.SQL("SELECT {} FROM {} ORDER BY position").format(sql.SQL(columns), sql.Identifier(table)))


def check_complete(index, run_sql, table):
    """The rows are those of a build that nothing cut off, each once, in order."""
    vectors = mixed(ROWS, WIDTH, seed=1)
    rows = rows_of(run_sql, table)
    assert [row[0] for row in rows] == list(range(ROWS))
    assert [row[1] for row in rows] == names(ROWS)
    stored = np.array([np.fromstring(row[5][1:-1], sep=",") for row in rows], dtype=np.float32)
    assert np.array_equal(stored, vectors)
    assert np.allclose([row[2] for row in rows], np.linalg.norm(vectors.astype(np.float64), axis=1), rtol=1e-15)
    assert [(row[3], row[6], row[7]) for row in rows] == [(float(n), f"text {n}", f'{{"third": {n % 3}}}') for n in range(ROWS)]
    assert len(index) == ROWS
    assert run_sql("SELECT to_regclass(%s)", staging_name(table)) == [(None,)]
    assert run_sql("SELECT state, loaded FROM normwise_indexes WHERE name = %s", table) == [("ready", ROWS)]
    index.close()


def check_half(run_sql, postgres, tmp_path, table, loaded):
    """Nothing answers: no folder, no table of that name, and a refusal in words for who knows the name."""
    assert not (tmp_path / "index").exists()
    assert run_sql("SELECT to_regclass(quote_ident(%s))", table) == [(None,)]
    assert run_sql("SELECT state, loaded FROM normwise_indexes WHERE name = %s", table) == [("loading", loaded)]
    assert run_sql(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(staging_name(table)))) == [(loaded,)]


def test_an_interrupted_load_goes_on_where_it_stopped(load, run_sql, postgres, tmp_path, table_name):
    with pytest.raises(Cut):
        load(log=after(4, cut))
    check_half(run_sql, postgres, tmp_path, table_name, 400)
    said = after(0, cut)
    check_complete(load(log=said), run_sql, table_name)
    assert said.seen[:2] == ["went on with the load that stopped after 400 of 900 rows", "loaded 500 of 900 rows"]


def test_a_loader_that_is_killed_leaves_nothing_that_answers(load, run_sql, postgres, tmp_path, table_name):
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np\n"
        "from contract import mixed, names\n"
        "from normwise.core.index_config import IndexConfig\n"
        "from normwise.index import pgvector_load\n"
        "from normwise.index.build import build_index\n"
        f"pgvector_load.CHUNK_BYTES, pgvector_load._PIECE_BYTES = {CHUNK * ROW_BYTES}, {30 * ROW_BYTES}\n"
        "real, calls = pgvector_load.encode_rows, []\n"
        "def encode(chunk):\n"
        "    calls.append(chunk)\n"
        "    return real(chunk) if len(calls) < 15 else os.kill(os.getpid(), 9)\n"
        "pgvector_load.encode_rows = encode\n"
        "config = IndexConfig(similarity='dot', engine='pgvector', url=sys.argv[2], name=sys.argv[3])\n"
        f"build_index(config, sys.argv[4], ids=names({ROWS}), vectors=mixed({ROWS}, {WIDTH}, seed=1),\n"
        f"    texts=[f'text {{row}}' for row in range({ROWS})], lengths=np.arange({ROWS}),\n"
        f"    metadata=[{{'third': row % 3}} for row in range({ROWS})])\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path.parent / "no"), postgres.url, table_name, str(tmp_path / "index")]
    arguments[3] = __file__.rpartition("/")[0]
    assert subprocess.run(arguments, timeout=120).returncode == -signal.SIGKILL
    # In the middle of the fourth chunk: three are in for good, and of the fourth nothing is.
    run_sql("SELECT pg_advisory_xact_lock(1), pg_sleep(0.2)")
    check_half(run_sql, postgres, tmp_path, table_name, 300)
    said = after(0, cut)
    check_complete(load(log=said), run_sql, table_name)
    assert said.seen[0] == "went on with the load that stopped after 300 of 900 rows"


def test_a_connection_cut_in_the_middle_of_a_chunk(load, run_sql, postgres, tmp_path, table_name, monkeypatch):
    calls = []

    def encode(chunk):
        calls.append(chunk)
        if len(calls) == 10:
            run_sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'normwise'")
        return encode_rows(chunk)

    monkeypatch.setattr("normwise.index.pgvector_load.encode_rows", encode)
    with pytest.raises(WorkError, match="the connection to PostgreSQL at .* was lost while loading .*the same call connects again"):
        load()
    check_half(run_sql, postgres, tmp_path, table_name, 200)
    check_complete(load(), run_sql, table_name)


def test_a_server_killed_in_the_middle_of_a_load(load, run_sql, postgres, tmp_path, table_name):
    with pytest.raises(WorkError, match="PostgreSQL at .*(was lost while loading|cannot connect to)|cannot connect to PostgreSQL at"):
        load(log=after(5, postgres.kill))
    with pytest.raises(WorkError, match="cannot connect to PostgreSQL .*is it running"):
        load()
    postgres.start()
    check_half(run_sql, postgres, tmp_path, table_name, 500)
    check_complete(load(), run_sql, table_name)


def test_other_contents_do_not_go_on_with_a_load(load, run_sql, postgres, tmp_path, table_name):
    with pytest.raises(Cut):
        load(log=after(2, cut))
    with pytest.raises(InputError, match=r"half loaded with other contents \(200 of 900 rows\): run the build that began it, pass"):
        load(scale=2.0)
    check_half(run_sql, postgres, tmp_path, table_name, 200)
    load(scale=2.0, overwrite=True).close()
    assert run_sql("SELECT state FROM normwise_indexes WHERE name = %s", table_name) == [("ready",)]
    check_complete(load(overwrite=True), run_sql, table_name)


def test_rows_that_vanished_from_a_half_loaded_table_are_loaded_again(load, run_sql, table_name):
    with pytest.raises(Cut):
        load(log=after(2, cut))
    run_sql(sql.SQL("DELETE FROM {} WHERE position = 7").format(sql.Identifier(staging_name(table_name))))
    check_complete(load(), run_sql, table_name)


def test_two_loaders_at_once_do_not_mix_their_rows(load, run_sql, table_name):
    other = []

    def meanwhile():
        if not other:
            other.append(load(folder="other"))

    with pytest.raises(WorkError, match="is loaded by another build at the same time|was changed by another build"):
        load(log=after(3, meanwhile))
    check_complete(other[0], run_sql, table_name)


def test_an_old_index_answers_until_the_new_one_is_whole(load, run_sql, tmp_path, table_name):
    old = load()
    queries = mixed(4, WIDTH, seed=2)
    before = old.search(queries, k=5)
    with pytest.raises(Cut):
        load(scale=2.0, overwrite=True, log=after(3, cut))
    again = open_index(tmp_path / "index")
    assert np.array_equal(again.search(queries, k=5).scores, before.scores)
    new = load(scale=2.0, overwrite=True)
    assert np.allclose(new.search(queries, k=5).scores, 2 * before.scores, rtol=1e-6)
    for index in (old, again, new):
        index.close()


def test_a_build_that_was_stopped_after_its_table_was_whole_only_writes_its_folder(load, tmp_path, table_name, monkeypatch):
    first = load(method="hnsw", links=4, construction_effort=20, folder="first")
    manifest = first.manifest
    first.close()
    with monkeypatch.context() as patch:
        patch.setattr("normwise.index.pgvector_build.write_manifest", lambda *_: cut())
        with pytest.raises(Cut):
            load(method="hnsw", links=4, construction_effort=20, overwrite=True)
    assert not (tmp_path / "index").exists()
    said = after(0, cut)
    again = load(method="hnsw", links=4, construction_effort=20, log=said, folder="other")
    # Two graphs over the same vectors are not the same graph.
    shown = {"method", "graph", "dimensions", "candidates", "corpus_vectors", "corpus_texts", "name", "location"}
    assert again.manifest.model_dump(include=shown) == manifest.model_dump(include=shown)
    assert said.seen == [f"table {table_name!r} had been built from the same vectors with the same settings: only its folder was missing"]
    again.close()
    with closing(open_index(tmp_path / "other")) as index:
        assert len(index) == ROWS
    with pytest.raises(InputError, match=BELONGS):
        load(method="hnsw", links=4, construction_effort=20)


@pytest.mark.parametrize("stopped_at", ["write_manifest", "tie_to_folder"])
def test_an_overwrite_that_was_stopped_after_its_table_was_whole_says_so_and_goes_on_from_it(
    load, run_sql, tmp_path, table_name, monkeypatch, stopped_at
):
    opened = load(scale=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(f"normwise.index.pgvector_build.{stopped_at}", lambda *_: cut())
        with pytest.raises(Cut):
            load(overwrite=True)
    said = r"was replaced by a build that has not written its folder: if none is at work, run that same build again, with --overwrite"
    for act in (lambda: open_index(tmp_path / "index"), lambda: opened.search(mixed(1, WIDTH, seed=2), k=1)):
        with pytest.raises(WorkError, match=said):
            act()
    opened.close()
    lines = []
    again = load(overwrite=True, log=lines.append)
    check_complete(again, run_sql, table_name)
    again.close()
    assert lines == [f"table {table_name!r} had been built from the same vectors with the same settings: only its folder was missing"]
    with closing(open_index(tmp_path / "index")) as index:
        assert len(index) == ROWS
    # Once it has its folder, or for other contents, an overwrite builds.
    for scale in (1.0, 2.0):
        lines.clear()
        load(scale=scale, overwrite=True, log=lines.append).close()
        assert f"loaded {ROWS} of {ROWS} rows" in lines


@pytest.mark.parametrize("change", ["rows", "contents"])
def test_a_table_that_was_changed_is_not_gone_on_from(load, run_sql, tmp_path, table_name, monkeypatch, change):
    with monkeypatch.context() as patch:
        patch.setattr("normwise.index.pgvector_build.write_manifest", lambda *_: cut())
        with pytest.raises(Cut):
            load(scale=1.0 if change == "rows" else 2.0)
    if change == "rows":
        run_sql(sql.SQL("DELETE FROM {} WHERE position = 7").format(sql.Identifier(table_name)))
    lines = []
    index = load(overwrite=True, log=lines.append)
    assert f"loaded {ROWS} of {ROWS} rows" in lines
    check_complete(index, run_sql, table_name)
    index.close()


def test_a_table_belongs_to_the_folder_of_its_build(load, run_sql, tmp_path, table_name):
    first = load()
    first.close()
    for scale in (1.0, 2.0):
        with pytest.raises(InputError, match=BELONGS):
            load(folder="other", scale=scale)
    assert not (tmp_path / "other").exists()
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "index", copied)
    with closing(open_index(copied)) as index:
        assert len(index) == ROWS
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(InputError, match=BELONGS):
        load()
    again = load(overwrite=True)
    check_complete(again, run_sql, table_name)
    with pytest.raises(WorkError, match="was built anew at .* UTC: open the folder of that build"):
        open_index(copied)
    assert "identity" in (tmp_path / "index" / "server.json").read_text()


def test_an_open_index_whose_table_was_built_anew_changes_nothing(load, tmp_path):
    first = load()
    second = load(folder="other", overwrite=True)
    with pytest.raises(WorkError, match="was built anew"):
        first.delete(["d0"])
    with pytest.raises(WorkError, match="was built anew"):
        first.search(mixed(1, WIDTH, seed=2), k=1)
    with closing(open_index(tmp_path / "other")) as again:
        assert len(second) == len(again) == ROWS
    first.close()
    second.close()


def test_a_half_loaded_table_is_refused_by_name(load, postgres, tmp_path, table_name, run_sql):
    whole = load()
    manifest = whole.manifest
    whole.close()
    run_sql("UPDATE normwise_indexes SET state = 'loading' WHERE name = %s", table_name)
    with pytest.raises(InputError, match="is half loaded: run the same build again, and it goes on where it stopped"):
        open_pgvector(tmp_path, manifest, url=postgres.url)


def test_rows_are_what_the_server_itself_writes(postgres, table_name):
    """The bytes of `encode_rows` are those of COPY ... TO of the same rows."""
    texts, metadata = ["ä \U0001f600", None, ""], ['{"a": 1}', '{"b": "é"}', "{}"]
    chunk = RowChunk(
        position=np.array([0, 2**40, 7]),
        ids=["a", "é" * 300, "%s"],
        vectors=np.array([[1.5, -0.0], [np.float32(1e-40), 3e38], [0, 0]], dtype=np.float32),
        norms=np.array([1.5, 1e300, 0.0]),
        hashes=np.arange(96, dtype=np.uint8).reshape(3, 32),
        lengths=np.array([3.0, 0.0, 1e9]),
        texts=texts,
        metadata=metadata,
    )
    columns = sql.SQL(", ").join(map(sql.Identifier, column_names()))
    with postgres.connect() as connection:
        connection.execute(create_table(Layout(table_name, 2)), ())
        copy_in = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table_name), columns)
        with connection.cursor().copy(copy_in) as copy:
            copy.write(HEADER + encode_rows(chunk) + TRAILER)
        copy_out = sql.SQL("COPY {} ({}) TO STDOUT (FORMAT BINARY)").format(sql.Identifier(table_name), columns)
        with connection.cursor().copy(copy_out) as copy:
            written = b"".join(bytes(part) for part in copy)
        found = connection.execute(sql.SQL("SELECT id, text, metadata FROM {} ORDER BY norm").format(sql.Identifier(table_name))).fetchall()
    assert written == HEADER + encode_rows(chunk) + TRAILER
    assert found == [("%s", "", {}), ("a", "ä \U0001f600", {"a": 1}), ("é" * 300, None, {"b": "é"})]


def at_row_chunk(monkeypatch, number, do):
    """Do something when so many pieces of rows are laid out."""
    calls = []

    def encode(chunk):
        calls.append(chunk)
        if len(calls) == number:
            do()
        return encode_rows(chunk)

    monkeypatch.setattr("normwise.index.pgvector_load.encode_rows", encode)


def test_a_load_that_was_stopped_before_any_row_was_in_is_in_nobodys_way(load, run_sql, postgres, tmp_path, table_name, monkeypatch):
    at_row_chunk(monkeypatch, 2, cut)
    with pytest.raises(Cut):
        load(scale=2.0)
    check_half(run_sql, postgres, tmp_path, table_name, 0)
    said = after(0, cut)
    check_complete(load(log=said), run_sql, table_name)
    assert said.seen[0] == "loaded 100 of 900 rows"


def test_a_load_that_began_anew_keeps_out_the_one_before(load, run_sql, postgres, tmp_path, table_name, monkeypatch):
    """The second begins when the first has written no row: the first must not go on in the table of the second."""
    begin, begun = pgvector_load._begin, []

    def overtaken(*arguments, **options):
        done = begin(*arguments, **options)
        begun.append(done)
        if len(begun) == 2:
            raise Cut
        with pytest.raises(Cut):
            load(folder="other")
        return done

    monkeypatch.setattr(pgvector_load, "_begin", overtaken)
    with pytest.raises(WorkError, match="is loaded by another build at the same time"):
        load(scale=2.0)
    assert begun == [0, 0]
    check_half(run_sql, postgres, tmp_path, table_name, 0)


def test_what_others_keep_in_the_folder_is_looked_at_when_it_is_replaced(load, tmp_path, monkeypatch):
    """A calibration of the end of the build goes along, and a file that is no part of the index is not deleted."""
    load().close()
    folder, tie = tmp_path / "index", pgvector_build.tie_to_folder
    (folder / "calibration.json").write_text("old")

    def tied(*arguments):
        tie(*arguments)
        (folder / late).write_text("new")

    monkeypatch.setattr(pgvector_build, "tie_to_folder", tied)
    late = "calibration.json"
    load(scale=2.0, overwrite=True).close()
    assert (folder / "calibration.json").read_text() == "new"
    late = "note.txt"
    with pytest.raises(InputError, match="index holds 'note.txt', which is no part of the index: refusing to replace it; move it away"):
        load(scale=3.0, overwrite=True)
    assert (folder / "note.txt").read_text() == "new"


def test_the_calibration_is_in_the_folder_as_soon_as_the_folder_is(load, tmp_path, monkeypatch):
    load().close()
    (tmp_path / "index" / "calibration.json").write_text("precious")
    monkeypatch.setattr(pgvector_build, "PgVectorIndex", lambda *_, **__: cut())
    with pytest.raises(Cut):
        load(scale=2.0, overwrite=True)
    assert (tmp_path / "index" / "calibration.json").read_text() == "precious"
