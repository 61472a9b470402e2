"""Addresses of servers: checked before they are used, and never shown with a password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from normwise.core.errors import InputError

_SECRET_NAMES = ("password", "sslpassword", "api_key", "api-key", "apikey", "token")
_PORT = re.compile(r"(\[[^]]*\]|[^:\[\]]*)(:\d*)?")
_CREDENTIALS = re.compile(r"(//[^\s:/@]*:)[^\s@]*@")
_MASK = "***"
# A shorter password is masked as a word of its own only: everywhere, it would eat half of every message.
_SHORT = 4


@dataclass(frozen=True)
class ServerUrl:
    """A server's address: `whole` connects, `shown` is what messages and manifests hold (no password in it)."""

    whole: str = field(repr=False)
    shown: str
    secrets: tuple[str, ...] = field(repr=False, default=())

    def mask(self, text: str) -> str:
        """Return a message with every password of the address blotted out, and any `//user:password@` in it.

        Example:
            >>> parse_server_url("postgresql://me:tiger@host/db", schemes=("postgresql",)).mask("no tiger here")
            'no *** here'
        """
        for secret in self.secrets:
            pattern = re.escape(secret) if len(secret) >= _SHORT else rf"(?<!\w){re.escape(secret)}(?!\w)"
            text = re.sub(pattern, _MASK, text)
        return _CREDENTIALS.sub(rf"\1{_MASK}@", text)


def parse_server_url(url: str, *, schemes: Sequence[str]) -> ServerUrl:
    """Take an address apart into what connects and what may be shown.

    Args:
        url: `scheme://user:password@host:port/path?name=value`; a password with @ : / ? # or % in it is percent-encoded.
        schemes: the schemes that are known, the usual one first.

    Raises:
        InputError: another scheme, or an address that can be read in two ways; the message shows nothing of a password.

    Example:
        >>> parse_server_url("postgresql://me:tiger@host:5432/db?sslmode=require", schemes=("postgresql",)).shown
        'postgresql://me@host:5432/db?sslmode=require'
    """
    advice = "percent-encode @ : / ? # and % in user and password (an @ is %40), or leave the password out of the address"
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise InputError(f"url cannot be read as an address; expected {_form(schemes)}: {advice}") from None
    if parts.scheme not in schemes:
        came = f"{parts.scheme}://..." if re.fullmatch(r"[a-z][a-z0-9+.-]{0,30}", parts.scheme) and "://" in url else "no such scheme"
        raise InputError(f"url has {came}; expected {_form(schemes)}")
    credentials, _, hosts = parts.netloc.rpartition("@")
    if "@" in credentials or "@" in parts.path or parts.fragment or not all(_PORT.fullmatch(host) for host in hosts.split(",")):
        raise InputError(f"url can be read in two ways; expected {_form(schemes)}: {advice}")
    if any(mark in url for mark in "\x00\n\r\t "):
        raise InputError(f"url has blanks or line ends in it; expected {_form(schemes)}: {advice}")
    user, _, password = credentials.partition(":")
    secrets = {password, *(value for name, value in query if name.lower() in _SECRET_NAMES)}
    secrets |= {unquote(secret) for secret in secrets}
    return ServerUrl(
        whole=url,
        shown=_shown(parts, user=user, hosts=hosts, query=query),
        secrets=tuple(sorted(filter(None, secrets), key=len, reverse=True)),
    )


def version_of(text: str) -> tuple[int, ...]:
    """Read the numbers of a version.

    Example:
        >>> version_of("0.8.5") > version_of("0.8")
        True
    """
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _form(schemes: Sequence[str]) -> str:
    return f"{schemes[0]}://user:password@host:port/..."


def _shown(parts: SplitResult, *, user: str, hosts: str, query: list[tuple[str, str]]) -> str:
    kept = [(name, value) for name, value in query if name.lower() not in _SECRET_NAMES]
    netloc = f"{user}@{hosts}" if user else hosts
    rest = urlunsplit(("", netloc, parts.path, urlencode(kept, safe="/:,-. ="), ""))
    # urlunsplit drops the // of an empty host, which a socket's address has.
    return f"{parts.scheme}://{rest.removeprefix('//')}"
