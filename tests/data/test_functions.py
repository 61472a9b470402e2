import argparse
import ast
import dataclasses
import inspect
import json.decoder
import textwrap
import typing

import pytest

from normwise.data.functions import does_nothing, signature_of, summary_of, without_docstrings
from normwise.data.sources import documented


def stripped(source):
    lines = source.split("\n")
    tree = ast.parse(source)
    node = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return without_docstrings(lines, node)


def expected_tree(node):
    """The same function with its docstrings taken out of the tree: the slow way."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(inner) is not None:
            inner.body = inner.body[1:] or [ast.Expr(ast.Constant(...))]
    return ast.dump(node)


@pytest.mark.parametrize("module", [argparse, textwrap, json.decoder, dataclasses, typing, inspect])
def test_real_functions_lose_their_docstrings_and_nothing_else(module):
    source = inspect.getsource(module)
    seen = 0
    for _, node, _ in documented(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            continue
        code = without_docstrings(source.split("\n"), node)
        if code is None:
            assert len(node.body) == 1
            continue
        seen += 1
        assert ast.dump(ast.parse(code).body[0]) == expected_tree(node)
    assert seen >= 2


CASES = {
    "whole lines": ('def f(a):\n    """Say it."""\n    return a\n', "def f(a):\n    return a"),
    "several lines": ('def f(a):\n    """Say it.\n\n    More.\n    """\n\n    return a', "def f(a):\n\n    return a"),
    "decorators and comments stay": (
        "class C:\n    @property  # why\n    def f(self):\n        # before\n        'Doc here.'\n        # after\n        return 1",
        "@property  # why\ndef f(self):\n    # before\n    # after\n    return 1",
    ),
    "statement behind it": ('def f():\n    "doc"; x = 1\n    return x', "def f():\n    x = 1\n    return x"),
    "on the line of the def": ('def f(): "doc"; return 1', "def f(): return 1"),
    "comment behind it": ('def f():\n    "doc"  # kept\n    return 1', "def f():\n    # kept\n    return 1"),
    "letters beyond ASCII": ('def f():\n    "dôôôc"; x = "é"\n    return x', 'def f():\n    x = "é"\n    return x'),
    "joined strings": ('def f():\n    "one" "two"\n    return 1', "def f():\n    return 1"),
    "string that is no docstring": ('def f():\n    x = """keep"""\n    return x', 'def f():\n    x = """keep"""\n    return x'),
    "text in strings keeps its indentation": (
        'class C:\n    def f(self):\n        "doc"\n        x = """\n        keep\n"""\n        return x',
        'def f(self):\n    x = """\n        keep\n"""\n    return x',
    ),
    "functions inside": (
        'def f():\n    "doc"\n    def g():\n        "inner"\n        return 1\n    def h():\n        "only"\n    return g',
        "def f():\n    def g():\n        return 1\n    def h():\n        ...\n    return g",
    ),
    "async": ('async def f():\n    "doc"\n    await g()', "async def f():\n    await g()"),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    source, expected = CASES[name]
    assert stripped(source) == expected


@pytest.mark.parametrize(
    "source", ['def f():\n    """only"""', 'def f():\n    ("doc")\n    return 1', 'def f():\n    (\n    "doc"\n    )\n    return 1']
)
def test_what_cannot_be_cut_exactly_is_left_out(source):
    assert stripped(source) is None


def test_summary_is_the_first_sentence():
    assert summary_of("Return the mean of x. It is fast.\n\nMore.") == "Return the mean of x."
    assert summary_of("Return the mean,\n    e.g. Of all values here.\n\nMore.") == "Return the mean, e.g. Of all values here."
    assert summary_of("Join `a` and ``b`` into a :func:`~pkg.path`.") == "Join a and b into a pkg.path."


@pytest.mark.parametrize(
    "text",
    [
        "Two words", "See the other function", "Deprecated since last year", "mean(a, b) computes it", "a b c 1234 5678 9999 ====",
        "Größe des Feldes lesen", ":param x: the value there",
    ],
)  # fmt: skip
def test_summaries_that_say_too_little_are_left_out(text):
    assert summary_of(text) is None


def test_bodies_that_do_nothing():
    def node(body):
        return ast.parse(f"def f():\n    'doc'\n    {body}").body[0]

    assert does_nothing(node("pass"))
    assert does_nothing(node("raise NotImplementedError"))
    assert does_nothing(node("..."))
    assert not does_nothing(node("return 1"))


def test_signatures_are_one_line():
    tree = ast.parse("class C(B):\n    def __init__(self, a, b=2): pass\nasync def g(*a, **k): pass")
    assert signature_of(tree.body[0], "C") == "class C(a, b=2)"
    assert signature_of(tree.body[1], "g") == "async def g(*a, **k)"
