"""A Qdrant engine: a server at an address, or Qdrant's local mode in this process; errors in words, no key in any of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, unquote, urlsplit

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from normwise.core.errors import InputError, WorkError
from normwise.index.server_url import ServerUrl, parse_server_url, version_of

SCHEMES = ("http", "https")
LOCAL = "Qdrant's local mode"
_TIMEOUT_SECONDS = 60
# Metadata of collections, in which an index says whether it is whole.
_OLDEST_SERVER = (1, 16)
_REFUSED = (401, 403)


class QdrantServer:
    """A Qdrant server, or Qdrant's local mode in the memory of this process where there is no address.

    Args:
        url: https://:API-KEY@host:6333; `timeout=SECONDS` among its options is heeded (else 60 s). None: local mode.

    Raises:
        InputError: the address cannot be read.
    """

    def __init__(self, url: str | None) -> None:
        self.url: ServerUrl | None = None if url is None else parse_server_url(url, schemes=SCHEMES)
        self._client: QdrantClient | None = None

    @property
    def local(self) -> bool:
        """Whether this is local mode."""
        return self.url is None

    @property
    def where(self) -> str:
        """What it is, for messages."""
        return LOCAL if self.url is None else f"Qdrant at {self.url.shown}"

    @contextmanager
    def calls(self, doing: str) -> Iterator[QdrantClient]:
        """Give the client, and turn what it raises into words.

        Args:
            doing: what is done with it, for messages: "while searching".

        Raises:
            InputError: the server wants another key.
            WorkError: it is down, too slow, or refuses; the next call tries again.
        """
        try:
            # Local mode advises against itself beyond 20,000 points; the manifest says what it is.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                yield self._open()
        except UnexpectedResponse as error:
            text = self._mask(" ".join(str(error).split())[:400])
            if error.status_code in _REFUSED:
                raise InputError(
                    f"{self.where} refused the key {doing} ({text}): give it in the address, https://:API-KEY@host:6333"
                ) from None
            raise WorkError(f"{self.where} refused {doing}: {text}") from None
        except ResponseHandlingException as error:
            source = f"{type(error.source).__name__}: {error.source}"
            slow = "Timeout" in type(error.source).__name__
            step = "ask for less at once, or allow more time in the address, as in ?timeout=300" if slow else "is it running and reachable?"
            raise WorkError(f"{self.where} {'was too slow' if slow else 'did not answer'} {doing} ({self._mask(source)}): {step}") from None
        except ApiException as error:
            raise WorkError(f"{self.where} failed {doing}: {self._mask(str(error))}") from None

    def close(self) -> None:
        """Let go of connections; local mode forgets what it held."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _mask(self, text: str) -> str:
        return text if self.url is None else self.url.mask(text)

    def _open(self) -> QdrantClient:
        if self._client is None:
            self._client = QdrantClient(":memory:") if self.url is None else self._connect(self.url)
        return self._client

    def _connect(self, url: ServerUrl) -> QdrantClient:
        parts = urlsplit(url.whole)
        options = dict(parse_qsl(parts.query))
        key = unquote(parts.password or "") or options.get("api_key")
        if not options.get("timeout", "1").isdigit():
            raise InputError(f"url has timeout={options['timeout']!r:.40}; expected whole seconds, as in ?timeout=300")
        host = parts.hostname or ""
        client = QdrantClient(
            url=f"{parts.scheme}://{f'[{host}]' if ':' in host else host}",
            port=parts.port if parts.port is not None else 6333,
            prefix=parts.path.strip("/") or None,
            api_key=key,
            timeout=int(options.get("timeout", _TIMEOUT_SECONDS)),
            check_compatibility=False,
        )
        version = client.info().version
        if version_of(version)[:2] < _OLDEST_SERVER:
            client.close()
            oldest = ".".join(map(str, _OLDEST_SERVER))
            raise WorkError(
                f"{self.where} is version {version}; expected {oldest} or newer, which knows metadata of collections: update it"
            )
        return client
