"""A command that takes two files by one option; it loads nothing heavy, since every command is made of it."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class TwoFilesCommand(TyperCommand):
    """A command with `--vectors QUERIES.npy CANDIDATES.npy`, which says so where one file came."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse one file before the next option is taken for the other."""
        for place, argument in enumerate(args):
            name, equals, first = argument.partition("=")
            if name != "--vectors":
                continue
            files = [first, *args[place + 1 : place + 2]] if equals else args[place + 1 : place + 3]
            if len(files) < 2 or any(file.startswith("-") for file in files):
                raise typer.BadParameter(
                    "expected two files after it, QUERIES.npy CANDIDATES.npy: the vectors of the queries, then those of the candidates",
                    ctx,
                    param_hint="--vectors",
                )
        return super().parse_args(ctx, args)
