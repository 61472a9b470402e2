"""Pictures shown to a model on the background that it was trained with, whoever hands them over."""

from __future__ import annotations

from collections.abc import Sequence

from normwise.core.errors import InputError
from normwise.data.backgrounds import on_background
from normwise.data.contents import Content, content_words, pictures_of
from normwise.data.picture_columns import parse_color
from normwise.data.picture_decoding import Color


def as_trained(contents: Sequence[Content], background: str | None, *, model: str, what: str, first: int = 0) -> list[Content]:
    """Show pictures on the background of a model's contract where they state none.

    One that states another is refused and not shown on either: the same picture has another vector there, and vectors of
    both would be compared, in an index above all. A warning would leave that to whoever reads warnings.

    Args:
        contents: n contents.
        background: `Contract.background`; None leaves every picture as it is.
        model: what messages call the model.
        what: what messages call the contents.
        first: the number of the first one in messages.

    Returns:
        The n contents; those without a picture, and all where nothing is to be done, are the same values.

    Raises:
        InputError: a picture states another background; the message names it and the way out.

    Example:
        >>> from normwise.data.pictures import Picture
        >>> as_trained(["a car", Picture.of_bytes(b"...", name="a.png")], "black", model="m", what="contents")[1].background
        (0, 0, 0)
    """
    if background is None:
        return list(contents)
    color = parse_color(background)
    for place, content in enumerate(contents):
        other = next((picture for picture in pictures_of(content) if picture.background not in (None, color)), None)
        if other is not None:
            named = f"{what}[{first + place}] ({content_words(content):.60}{f' of {other.where}' if other.where else ''})"
            raise InputError(
                f"{named} is to be shown on {color_name(other.shown_on)}, and {model} was "
                f"trained with pictures on {color_name(color)}: leave background out of the config (and of a "
                f"Picture), or make it {color_name(color)}"
            )
    return [on_background(content, color) for content in contents]


def color_name(color: Color) -> str:
    """The name of a color as a config has it.

    Example:
        >>> color_name((255, 255, 255)), color_name((255, 128, 0))
        ('white', '#ff8000')
    """
    return {(255, 255, 255): "white", (0, 0, 0): "black"}.get(color) or "#" + bytes(color).hex()
