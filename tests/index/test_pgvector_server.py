"""What can be wrong with a server, in words; and no password in any of them."""

import os
import signal
import socket
import sys
import threading

import numpy as np
import pytest
from contract import mixed, names
from psycopg import sql

from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index.build import build_index, check_engine
from normwise.index.opening import open_index
from normwise.index.pgvector_server import PgServer, check_pgvector_version

ENCODED = "tiger%2524%20lily"


def ask(url, **settings):
    server = PgServer(url, **settings)
    try:
        with server.transaction("while testing") as connection:
            return connection.execute("SELECT 1").fetchone()
    finally:
        server.close()


def build(url, folder, name, **more):
    config = IndexConfig(similarity="dot", engine="pgvector", url=url, name=name)
    return build_index(config, folder, ids=names(20), vectors=mixed(20, 4, seed=1), **more)


def test_the_right_password_opens(postgres):
    assert ask(postgres.url_of(postgres.limited, ENCODED)) == (1,)


def test_a_wrong_password_is_refused_and_not_shown(postgres):
    with pytest.raises(InputError, match="refused user or password.*correct them in the address, in PGPASSWORD or in ~/.pgpass") as caught:
        ask(postgres.url_of(postgres.limited, "wrongword"))
    assert "wrongword" not in str(caught.value)


def test_no_password_is_asked_for(postgres, monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    with pytest.raises(InputError, match="asks for a password: give it in the address, in PGPASSWORD or in ~/.pgpass"):
        ask(postgres.url_of(postgres.limited))
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    assert ask(postgres.url_of(postgres.limited)) == (1,)


def test_a_database_that_is_not_there(postgres):
    with pytest.raises(WorkError, match='database "nowhere" does not exist.*does the address name the right host, port and database'):
        ask(postgres.url_of("postgres", database="nowhere"))


def test_an_option_that_nobody_knows(postgres):
    with pytest.raises(InputError, match='was not accepted .invalid URI query parameter: "bogus"'):
        ask(f"{postgres.url}&bogus=1")


def test_a_server_that_is_down():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(WorkError, match=f"cannot connect to PostgreSQL at postgresql://me@127.0.0.1:{port}/db .*is it running") as caught:
        ask(f"postgresql://me:tigerlily@127.0.0.1:{port}/db")
    assert "tigerlily" not in str(caught.value)


def test_a_server_that_never_answers():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(1)
        port = mute.getsockname()[1]
        with pytest.raises(WorkError, match="did not answer in time .*is it running, and the host reachable"):
            ask(f"postgresql://me@127.0.0.1:{port}/db?connect_timeout=2")


def test_a_statement_that_takes_too_long(postgres):
    server = PgServer(f"{postgres.url}&options=-c%20statement_timeout%3D100ms")
    with (
        pytest.raises(WorkError, match="was stopped while testing, with a time limit of 0.1 s.*allow more time in the address"),
        server.transaction("while testing") as connection,
    ):
        connection.execute("SELECT pg_sleep(20)")
    with server.transaction("while testing") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with server.transaction("while testing", unlimited=True) as connection:
        connection.execute("SELECT pg_sleep(0.2)")
    server.close()


def test_a_server_that_hangs_is_given_up(postgres, monkeypatch):
    monkeypatch.setattr("normwise.index.pgvector_server._GRACE_SECONDS", 0.1)
    server = PgServer(postgres.url, statement_timeout=0.2)
    with server.transaction("while testing") as connection:
        process = connection.info.backend_pid
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(WorkError, match="did not answer within 0.5 s while testing"), server.transaction("while testing"):
            pass
    finally:
        os.kill(process, signal.SIGCONT)
    with server.transaction("while testing") as connection:
        assert connection.info.backend_pid != process
    server.close()


def test_a_search_whose_server_is_killed_says_so_and_the_next_one_connects_again(postgres, tmp_path, table_name, monkeypatch):
    index = build(postgres.url, tmp_path / "index", table_name)
    queries = mixed(3, 4, seed=2)
    before = index.search(queries, k=5)
    real = index._entry

    def kill_first(*arguments, **options):
        postgres.kill()
        return real(*arguments, **options)

    monkeypatch.setattr(index, "_entry", kill_first)
    with pytest.raises(
        WorkError, match="the connection to PostgreSQL at .* was lost while searching .*once the server is back, the same call"
    ):
        index.search(queries, k=5)
    monkeypatch.setattr(index, "_entry", real)
    with pytest.raises(WorkError, match="cannot connect to PostgreSQL"):
        index.search(queries, k=5)
    postgres.start()
    after = index.search(queries, k=5)
    assert (after.ids == before.ids).all()
    assert np.array_equal(after.scores, before.scores)
    index.close()


def test_an_idle_connection_that_was_cut_is_opened_again_unseen(postgres, tmp_path, table_name, run_sql):
    index = build(postgres.url, tmp_path / "index", table_name)
    with index._server.transaction("while testing") as connection:
        process = connection.info.backend_pid
    run_sql("SELECT pg_terminate_backend(%s, 5000)", process)
    assert index.search(mixed(1, 4, seed=2), k=5).counts.tolist() == [5]
    index.close()


def test_a_server_without_pgvector(postgres, run_sql):
    run_sql("CREATE DATABASE bare")
    run_sql("CREATE ROLE visitor LOGIN")
    with pytest.raises(WorkError, match="pgvector is not switched on in this database, and this role cannot .*CREATE EXTENSION vector"):
        ask(postgres.url_of("visitor", database="bare"))
    assert ask(postgres.url_of("postgres", database="bare")) == (1,)


def test_a_server_whose_pgvector_is_too_old():
    with pytest.raises(WorkError, match="pgvector in this database is 0.7.4; expected 0.8.0 or newer: .*ALTER EXTENSION vector UPDATE"):
        check_pgvector_version("0.7.4")


def test_a_role_that_may_not_create(postgres, tmp_path, table_name):
    with pytest.raises(WorkError, match="does not allow this while .*grant the role that right"):
        build(postgres.url_of(postgres.limited, ENCODED), tmp_path / "index", table_name)
    assert not (tmp_path / "index").exists()


def test_the_folder_holds_the_address_without_its_password(postgres, tmp_path, table_name, run_sql, monkeypatch):
    run_sql(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(postgres.limited)))
    run_sql("DROP TABLE IF EXISTS normwise_indexes")
    try:
        said = []
        index = build(postgres.url_of(postgres.limited, ENCODED), tmp_path / "index", table_name, log=said.append)
        index.close()
        written = (tmp_path / "index" / "index.json").read_text()
        for text in (written, " ".join(said), repr(index.manifest)):
            assert "tiger" not in text
            assert "lily" not in text
        assert postgres.url_of(postgres.limited) in written
        monkeypatch.setenv("PGPASSFILE", os.devnull)
        with pytest.raises(InputError, match="asks for a password"):
            open_index(tmp_path / "index")
        again = open_index(tmp_path / "index", url=postgres.url_of(postgres.limited, ENCODED))
        assert len(again) == 20
        again.close()
    finally:
        run_sql(sql.SQL("REVOKE CREATE ON SCHEMA public FROM {}").format(sql.Identifier(postgres.limited)))
        run_sql("DROP TABLE IF EXISTS normwise_indexes")


def test_a_missing_driver_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r'psycopg is not installed; run: pip install "normwise\[index\]"'):
        build("postgresql://me@127.0.0.1/db", tmp_path / "index", "x")


def test_a_watch_that_never_bites_leaves_no_thread(postgres):
    before = set(threading.enumerate())
    ask(postgres.url)
    assert set(threading.enumerate()) <= before


def test_threads_take_turns(postgres, tmp_path, table_name):
    index = build(postgres.url, tmp_path / "index", table_name)
    queries, answers = mixed(6, 4, seed=3), []
    wanted = index.search(queries, k=3).ids.tolist()
    threads = [threading.Thread(target=lambda: answers.append(index.search(queries, k=3).ids.tolist())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [wanted] * 6
    index.close()


def test_what_stands_on_a_server_is_looked_at_before_the_work(postgres, tmp_path, table_name, run_sql):
    def look(name, *, overwrite=False, url=postgres.url):
        config = IndexConfig(similarity="dot", engine="pgvector", url=url, name=name)
        check_engine(config, tmp_path / "index", overwrite=overwrite)

    look(table_name)
    build(postgres.url, tmp_path / "index", table_name).close()
    with pytest.raises(InputError, match="belongs to the index that was built at .* UTC: open the folder of that build"):
        look(table_name)
    look(table_name, overwrite=True)
    run_sql(sql.SQL("CREATE TABLE {} ()").format(sql.Identifier(f"{table_name} of others")))
    with pytest.raises(InputError, match="that is no index of normwise: choose another name"):
        look(f"{table_name} of others", overwrite=True)
    with pytest.raises(InputError, match="name has 64 bytes"):
        look("x" * 64)
    with pytest.raises(WorkError, match="does not allow this while .*grant the role that right"):
        look("new", url=postgres.url_of(postgres.limited, ENCODED))
