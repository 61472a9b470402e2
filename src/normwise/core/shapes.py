"""Named axes in signatures: jaxtyping's types where it is installed (the test run), plain stand-ins elsewhere.

Axes: B queries, N candidates, D width, L tokens, V vocabulary, K cut-off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Named:
            """`Float[array_type, "B D"]` is just `array_type` where shapes are not checked."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = _Named

__all__ = ["Bool", "Float", "Int"]
