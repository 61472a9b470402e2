"""Drawing SVG texts as PNG in a process of their own, bounded in time, memory and size; nothing outside a text is read."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from threading import Timer
from types import TracebackType
from typing import BinaryIO, final

from normwise.core.errors import MissingExtraError, NormwiseError

SIDE = 128
LONGEST = 500_000
SECONDS = 20.0
_MEMORY = 2 * 1024**3
_WORKERS = 2
_DRAWN, _FAILED = b"\0", b"\1"
# Files that are named inside, scripts, style sheets and entities; and letters, which would look as the machine's fonts do.
_REFUSED = (
    (re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE), "declares a document type or entities"),
    (re.compile(r"<\s*(?:[\w.-]+:)?(?:script|foreignObject|image|feImage|style)\b", re.IGNORECASE), "holds a script, a picture or a style"),
    (re.compile(r"<\s*(?:[\w.-]+:)?text\b", re.IGNORECASE), "holds text, which depends on the fonts of the machine"),
    (re.compile(r"\bhref\s*=\s*(?!\s*[\"']\s*#)", re.IGNORECASE), "refers to something outside itself"),
    (re.compile(r"url\(\s*[\"']?\s*(?!#)[^\s\"'#]", re.IGNORECASE), "refers to something outside itself"),
)


class SvgError(NormwiseError):
    """A drawing that was not drawn, and why."""


def svg_problem(text: str) -> str | None:
    """Say why a drawing is refused before it is drawn, or None.

    Example:
        >>> svg_problem('<svg><use href="file.svg#a"/></svg>'), svg_problem('<svg><use href="#a"/></svg>')
        ('refers to something outside itself', None)
    """
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, and {LONGEST:,} are read"
    return next((problem for pattern, problem in _REFUSED if pattern.search(text)), None)


def draw_all(texts: Sequence[str], *, side: int = SIDE, seconds: float = SECONDS) -> list[bytes | str]:
    """Draw SVG texts.

    Args:
        texts: n drawings.
        side: width and height of the pictures, pixels.
        seconds: how long one may take.

    Returns:
        For each the bytes of a square PNG with transparency, or the reason why it has none.

    Raises:
        MissingExtraError: resvg_py is not installed.
    """
    if find_spec("resvg_py") is None:
        raise MissingExtraError("resvg_py", extra="images")
    results: list[bytes | str] = [""] * len(texts)
    workers = min(_WORKERS, len(texts))

    def work(first: int) -> None:
        with Drawer(side=side, seconds=seconds) as drawer:
            for row in range(first, len(texts), workers):
                try:
                    results[row] = drawer.draw(texts[row])
                except SvgError as error:
                    results[row] = str(error)

    if workers:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
    return results


@final
class Drawer:
    """One process that draws; it is ended when a drawing takes too long, and a new one goes on with the next.

    Args:
        side: width and height of the pictures, pixels.
        seconds: how long one drawing may take.
    """

    def __init__(self, *, side: int = SIDE, seconds: float = SECONDS) -> None:
        self._side, self._seconds = side, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Drawer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def draw(self, text: str) -> bytes:
        """Draw one.

        Raises:
            SvgError: it is refused, broken, not square, or takes too long or too much memory.
        """
        problem = svg_problem(text)
        if problem is not None:
            raise SvgError(problem)
        process = self._started()
        # Without a drawing in hand the process may take its time: it starts within this limit too.
        clock = Timer(self._seconds, process.kill)
        clock.start()
        try:
            status, answer = self._ask(process, text.encode("utf-8", "replace"))
        finally:
            clock.cancel()
        if status is None:
            self._end()
            raise SvgError(f"was given up: it took longer than {self._seconds:g} seconds or too much memory")
        if status != _DRAWN:
            raise SvgError(answer.decode("utf-8", "replace"))
        return answer

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], data: bytes) -> tuple[bytes | None, bytes]:
        if process.stdin is None or process.stdout is None:
            return None, b""
        try:
            process.stdin.write(len(data).to_bytes(8, "big") + data)
            process.stdin.flush()
            head = process.stdout.read(9)
            answer = process.stdout.read(int.from_bytes(head[1:], "big")) if len(head) == 9 else b""
        except OSError:
            return None, b""
        whole = len(head) == 9 and len(answer) == int.from_bytes(head[1:], "big")
        return (head[:1], answer) if whole else (None, b"")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "normwise.data.emoji_svg", str(self._side)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()


def _serve(inlet: BinaryIO, outlet: BinaryIO, side: int) -> None:
    """Answer each length and SVG text with a status, a length, and a PNG or the reason why there is none."""
    _bound_memory()
    while len(head := inlet.read(8)) == 8:
        text = inlet.read(int.from_bytes(head, "big")).decode("utf-8", "replace")
        try:
            status, answer = _DRAWN, _draw(text, side)
        except BaseException as error:
            # What panics in resvg is no Exception.
            status, answer = _FAILED, f"cannot be drawn: {error!s:.200}".encode("utf-8", "replace")
        outlet.write(status + len(answer).to_bytes(8, "big") + answer)
        outlet.flush()


def _draw(text: str, side: int) -> bytes:
    import resvg_py

    png = bytes(resvg_py.svg_to_bytes(svg_string=text, width=side, skip_system_fonts=True))
    # A PNG begins with 8 bytes of signature, the length and name of its first part, and its width and height.
    size = (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big"))
    if size != (side, side):
        raise SvgError(f"it is not square: {size[0]} x {size[1]} pixels")
    return png


def _bound_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
