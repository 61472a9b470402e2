"""What people ask an index: texts, pictures, or both as one query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.contents import Content, Interleaved, compose, content_problem
from normwise.data.opening import user_path
from normwise.data.pictures import Picture

# A path object writes one slash where an address has two.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/|data:", re.IGNORECASE)


def asked_contents(texts: Sequence[str], images: Sequence[str | Path]) -> list[Content]:
    """Put texts and pictures of a command line together: one text and its pictures are one query, pictures alone one each.

    Args:
        texts: none, or one; it may say `<image>` where a picture stands.
        images: files, at least one. Each is decoded, so that a bad one is told before a model is opened.

    Raises:
        InputError: several texts beside pictures, an address, a file that is not there, or one that is no picture.
    """
    if len(texts) > 1:
        raise InputError(f"{len(texts)} texts came beside --image: give one text, which is asked with the picture, or none")
    for image in images:
        if _ADDRESS.match(str(image)):
            raise InputError(
                f"--image {str(image)!r:.160} is an address, and addresses are not fetched: download the file, and give its path"
            )
    pictures = tuple(Picture.of_file(user_path(image, what="image"), name=str(image)) for image in images)
    for picture in pictures:
        picture.open()
    if not texts:
        return list(pictures)
    if (problem := content_problem(texts[0])) is not None:
        raise InputError(f"the text beside --image {problem}: leave it out, or give one")
    return [compose(texts[0], pictures)]


def checked_contents(queries: Any) -> tuple[Content, ...]:
    """Take queries as a person gives them: texts, pictures, or both together in a tuple.

    Raises:
        InputError: one value in place of a list, an empty text, or a picture that cannot be read.

    Example:
        >>> checked_contents(["a bank"])
        ('a bank',)
    """
    if isinstance(queries, str | bytes | PurePath) or not isinstance(queries, Sequence):
        came = "one text" if isinstance(queries, str | bytes) else f"a {type(queries).__name__}"
        if isinstance(queries, np.ndarray):
            came = f"an array of {queries.dtype}"
        raise InputError(f"queries are {came}; expected a list of texts or pictures, or a float array (queries, dimensions)")
    if any(_is_picture(each) for each in queries):
        from normwise.models.inputs import as_contents

        queries = [as_contents([each], what="queries", first=row)[0] if _is_picture(each) else each for row, each in enumerate(queries)]
    for row, content in enumerate(queries):
        if (problem := content_problem(content)) is not None:
            raise InputError(f"queries: row {row} {problem}; expected a text or a picture: leave it out")
    return tuple(queries)


def _is_picture(query: Any) -> bool:
    """Whether a query is given as something that holds a picture."""
    return isinstance(query, PurePath | Picture | Interleaved | tuple | list) or type(query).__module__.startswith("PIL.")
