"""One connection to a PostgreSQL server with pgvector: opened when needed, opened again after a loss, errors in words."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from pgvector.psycopg import register_vector
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from normwise.core.errors import InputError, NormwiseError, WorkError
from normwise.index.server_url import ServerUrl, parse_server_url, version_of

SCHEMES = ("postgresql", "postgres")
_CONNECT_SECONDS = 10
# A statement of a search may take as long, where neither address nor role nor server sets a limit.
_STATEMENT_SECONDS = 60.0
# What a server gets beyond that before it counts as gone, a few statements of one transaction included.
_GRACE_SECONDS = 5.0
# pgvector 0.8.0 brought iterative scans, without which a filtered search over a graph finds too little.
_OLDEST_PGVECTOR = (0, 8, 0)
_SLOW = (
    "ask for less at once, or allow more time in the address, as in ?options=-c%20statement_timeout%3D300s; "
    "where the server hangs, see to it"
)
_UPDATE = "update pgvector on the server and run ALTER EXTENSION vector UPDATE"


class PgServer:
    """A PostgreSQL server by its address; the password comes from it, or from libpq's own ways (PGPASSWORD, ~/.pgpass).

    Args:
        url: postgresql://user:password@host:port/database?options; `connect_timeout=SECONDS` among them is heeded (else 10 s),
            and so is a statement_timeout of options, role or server.
        statement_timeout: seconds that one statement of a search may take where nothing else says so.

    Raises:
        InputError: the address cannot be read.
    """

    def __init__(self, url: str, *, statement_timeout: float = _STATEMENT_SECONDS) -> None:
        self.url: ServerUrl = parse_server_url(url, schemes=SCHEMES)
        self._limit = statement_timeout
        self._connection: psycopg.Connection | None = None
        # Threads take turns: a connection has one transaction at a time.
        self._turn = threading.Lock()

    @contextmanager
    def transaction(self, doing: str, *, unlimited: bool = False) -> Iterator[psycopg.Connection]:
        """Open a transaction that commits at the end of the block, or leaves nothing behind.

        Args:
            doing: what is done in it, for messages: "while searching".
            unlimited: whether statements may take as long as they take (loading, building a graph).

        Raises:
            InputError: the server does not let this user in.
            WorkError: the server is down, was lost, is too slow or refuses; the next call connects again.
        """
        with self._turn:
            yield from self._transaction(doing, unlimited=unlimited)

    def _transaction(self, doing: str, *, unlimited: bool) -> Iterator[psycopg.Connection]:
        connection = self._alive()
        late = threading.Event()
        patience = None if unlimited else 2 * self._limit + _GRACE_SECONDS
        try:
            with _watched(connection, patience, late), connection.transaction():
                setting(connection, "statement_timeout", "0" if unlimited else f"{round(1000 * self._limit)}ms")
                yield connection
        except psycopg.Error as error:
            lost = connection.closed or connection.broken
            if lost:
                self.close()
            if late.is_set():
                raise WorkError(f"PostgreSQL at {self.url.shown} did not answer within {patience:g} s {doing}: {_SLOW}") from None
            raise self._in_words(error, doing, lost=lost) from None

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _alive(self) -> psycopg.Connection:
        if self._connection is not None and not _still_there(self._connection):
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection:
        try:
            # prepare_threshold None: prepared statements do not get through poolers of connections.
            connection = psycopg.connect(self._address(), autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise self._no_connection(error) from None
        try:
            _prepare_pgvector(connection)
            register_vector(connection)
            self._limit = _set_limit(connection) or self._limit
        except psycopg.Error as error:
            connection.close()
            raise self._in_words(error, "while looking for pgvector", lost=False) from None
        except NormwiseError:
            connection.close()
            raise
        return connection

    def _address(self) -> str:
        """The address with what it leaves open; keepalives, so that a host that vanished is noticed within a minute."""
        usual = {"connect_timeout": _CONNECT_SECONDS, "application_name": "normwise"}
        usual |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        given = conninfo_to_dict(self.url.whole)
        return make_conninfo(self.url.whole, **{name: value for name, value in usual.items() if name not in given})

    def _no_connection(self, error: psycopg.Error) -> NormwiseError:
        where = f"PostgreSQL at {self.url.shown}"
        text = self.url.mask(_one_line(error))
        if isinstance(error, errors.ConnectionTimeout):
            return WorkError(f"{where} did not answer in time ({text}): is it running, and the host reachable?")
        needs_password = error.pgconn is not None and error.pgconn.needs_password
        if needs_password or "no password supplied" in text:
            return InputError(f"{where} asks for a password: give it in the address, in PGPASSWORD or in ~/.pgpass")
        if "authentication failed" in text:
            return InputError(f"{where} refused user or password ({text}): correct them in the address, in PGPASSWORD or in ~/.pgpass")
        if isinstance(error, psycopg.ProgrammingError):
            return InputError(f"the address of {where} was not accepted ({text}): correct it")
        return WorkError(f"cannot connect to {where} ({text}): is it running, and does the address name the right host, port and database?")

    def _in_words(self, error: psycopg.Error, doing: str, *, lost: bool) -> NormwiseError:
        where = f"PostgreSQL at {self.url.shown}"
        text = self.url.mask(_one_line(error))
        if lost:
            return WorkError(f"the connection to {where} was lost {doing} ({text}): once the server is back, the same call connects again")
        if isinstance(error, errors.QueryCanceled):
            return WorkError(f"{where} was stopped {doing}, with a time limit of {self._limit:g} s ({text}): {_SLOW}")
        if isinstance(error, errors.LockNotAvailable):
            return WorkError(f"another build of this index is at work {doing} at {where}: wait until it ends, or stop it")
        if isinstance(error, errors.InsufficientPrivilege):
            return WorkError(f"{where} does not allow this {doing} ({text}): grant the role that right, or connect as another one")
        if isinstance(error, errors.UndefinedTable):
            return WorkError(f"{where} lacks a table {doing} ({text}): build the index again")
        return WorkError(f"{where} refused {doing}: {text}")


@contextmanager
def _watched(connection: psycopg.Connection, seconds: float | None, late: threading.Event) -> Iterator[None]:
    """Cut a connection off after so many seconds, and set `late`: a server that hangs keeps no time limit of its own."""

    def cut() -> None:
        late.set()
        with suppress(OSError), socket.socket(fileno=own) as end:
            end.shutdown(socket.SHUT_RDWR)

    if seconds is None:
        yield
        return
    own = os.dup(connection.fileno())
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if not late.is_set():
            os.close(own)


def _set_limit(connection: psycopg.Connection) -> float:
    """The statement_timeout that address, role or server set, in seconds; 0 for none."""
    row = connection.execute("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'").fetchone()
    return int(row[0]) / 1000 if row else 0.0


def _still_there(connection: psycopg.Connection) -> bool:
    """Whether an idle connection lives: it has nothing to read but notices, and an end where the server went away."""
    try:
        while not connection.closed and select.select([connection.fileno()], [], [], 0)[0]:
            connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return not connection.closed


def _prepare_pgvector(connection: psycopg.Connection) -> None:
    """Check the extension, and switch it on where the server has it and the database not yet."""
    query = "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
    found = connection.execute(query).fetchone()
    installed = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if installed is None:
        if found is None:
            raise WorkError("this PostgreSQL server has no pgvector: install the extension on the server, or choose another engine")
        _switch_on(connection)
        installed = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    version = str(installed[0]) if installed else ""
    check_pgvector_version(version)


def check_pgvector_version(version: str) -> None:
    """Refuse a pgvector without iterative scans.

    Raises:
        WorkError: it is older than 0.8.0.

    Example:
        >>> check_pgvector_version("0.8.5")
    """
    if version_of(version) < _OLDEST_PGVECTOR:
        oldest = ".".join(map(str, _OLDEST_PGVECTOR))
        raise WorkError(f"pgvector in this database is {version}; expected {oldest} or newer: {_UPDATE}")


def _switch_on(connection: psycopg.Connection) -> None:
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.Error as error:
        step = "run CREATE EXTENSION vector in it as a role that may"
        raise WorkError(f"pgvector is not switched on in this database, and this role cannot ({_one_line(error)}): {step}") from None


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def setting(connection: psycopg.Connection, name: str, value: str) -> None:
    """Set a server's setting for the rest of this transaction."""
    connection.execute("SELECT set_config(%s, %s, true)", (name, value))
