"""Canonical source is the same in every Python version, and differs if the meaning differs."""

from __future__ import annotations

import hashlib
import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnbench.builds.uv import find
from rnnbench.planning import canonical_source
from tests.conftest import ROOT

VERSIONS = ("3.11", "3.12", "3.13")
# Reads a JSON list of sources and prints the digests of their canonical forms.
SCRIPT = """
import hashlib, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("canonical_source", sys.argv[1])
canonical_source = importlib.util.module_from_spec(spec)
sys.modules["canonical_source"] = canonical_source
spec.loader.exec_module(canonical_source)
texts = map(canonical_source.canonical, json.load(sys.stdin))
print(json.dumps([hashlib.sha256(text.encode()).hexdigest() for text in texts]))
"""

# Valid in Python 3.11 to 3.13, but not always dumped alike.
SNIPPETS = [
    "",
    "def f(): pass",
    "def f(a, /, b=1, *c, d, e=2, **g) -> int: 'doc'\n",
    "async def f():\n    async with a as b, c: await d\n    return [x async for x in y]",
    "class A(B, metaclass=C):\n    x: int = 1\n    y: 'text'",
    "@a.b(c)\nclass A: ...",
    "lambda: 0",
    "call()",
    "call(*a, k=1, **b)",
    "{**a, 'b': 1}",
    "x = u'a' 'b'",
    "x = b'a' b'\\xff'",
    "x = -1, 1_000, 0xFF, 1e400, 1j, -0.0, 1.5, True, None, ...",
    f"x = {'9' * 4000}",
    f"x = 0x{'f' * 5000}",
    "x = '\\ud800', '\\N{BULLET}', '\\u200b', 'ﬁ', '🫨', '\U00031350'",
    "ﬁ = 1",
    "x = '\\d'",
    "x = f''",
    "x = f'' f''",
    "x = f'a' 'b' f'c{d}e' 'f' f''",
    "x = '' f'{a}' ''",
    "x = f'{a}{b}'",
    "x = f'{a:}'",
    "x = f'{a!r:}'",
    "x = f'{a!s:>{b}}'",
    "x = f'{a:{b}.{c}f}'",
    "x = f'{a:%H:%M}'",
    "x = f'{{a}}'",
    "x = f'{{{a}}}'",
    "x = f'{a=}'",
    "x = f'{ a = }'",
    "x = f'{a=!r:^20}'",
    "x = f'{a=:5}'",
    "x = f'{a + 1 = }, {b}'",
    "x = f'{(lambda b: b)(a)}'",
    "x = f'{ {1: 2}[1] }'",
    "x = f'{a[\"b\"]}'",
    "x = f'{*a, b}'",
    "x = f'\\x41{a:\\x41}'",
    "x = rf'\\x41{a:b}\\d'",  # 3.12.1 itself takes the \\x41 of rf'{a:\\x41}' for an A
    "x = f'\\N{DIGIT ONE}{a}'",
    "x = f'''\n{a\n}\n{\nb = }'''",
    "x = f'{f\"{a}\"}'",
    "x = f'{a if b else c:{d}}'",
    "x = f'{a!r}' if b else f'{a}'",
    "def f():\n    f'no docstring {a}'",
    "def f():\n    b'no docstring'",
    "match a:\n    case None | True | -1 | 'b' | 1+2j: pass\n"
    "    case [b, *_] | {'c': d, **e} | F(1, g=2) as h if i: pass",
    "try: a\nexcept* B as c: d\nelse: e\nfinally: g",
    "while (n := f()): break\nelse: pass",
    "with (a as b, c): pass",
    "x[1:2, ..., ::3, *a]",
    "global a, b\ndel c, d[0]",
    "from . import a as b\nfrom ...c import *\nimport d.e as g",
    "print(a, file=b); raise A from b",
    "x = yield\ny = yield from z",
    "assert a, b",
    "x: int",
    "(x): int = 1",
    "x = [a for b in c if d if e for g in h]",
    "if a: b\nelif c: d\nelse: e",
    "x @= y; x //= 2; x = a < b <= c is not d not in e",
]


def digests(version: str, texts: list[str]) -> list[str]:
    python = find(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine to compare digests with")
    command = [str(python), "-I", "-W", "ignore", "-c", SCRIPT, str(canonical_source.__file__)]
    process = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)


def local_digests(texts: list[str]) -> list[str]:
    canonical = map(canonical_source.canonical, texts)
    return [hashlib.sha256(text.encode()).hexdigest() for text in canonical]


@pytest.mark.parametrize("version", VERSIONS)
def test_difficult_snippets_are_the_same_in_every_version(version: str) -> None:
    pairs = zip(SNIPPETS, local_digests(SNIPPETS), digests(version, SNIPPETS), strict=True)
    assert [text for text, local, other in pairs if local != other] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_project_is_the_same_in_every_version(version: str) -> None:
    files = [file for folder in ("src", "tests") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert ROOT / "src/rnnworker/run.py" in files
    texts = [file.read_text(encoding="utf-8") for file in files]
    pairs = zip(files, local_digests(texts), digests(version, texts), strict=True)
    assert [file for file, local, other in pairs if local != other] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 1", "x=1  # why\n\n"),
        ("def f():\n  'doc'\n  return 1", "def f():\n\n    return (1)"),
        ("class A:\n    '''doc'''\n    x = 1", "class A:\n    x = 1"),
        ("'''Module.'''\nimport a", "import a"),
        ("x = 'ab'", 'x = ("a"\n  "b")'),
        ("x = f'a{b}c'", "x = (f'a'\n f'{b}' 'c')"),
        ("x = u'a'", "x = 'a'"),
        ("x = 255", "x = 0xFF"),
        ("x = a, b", "x = (a, b,)"),
        ("x = '\\x41'", "x = 'A'"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(first: str, second: str) -> None:
    assert canonical_source.canonical(first) == canonical_source.canonical(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 1", "x = '1'"),
        ("x = 'a'", "x = b'a'"),
        ("x = 'a'", "x = a"),
        ("x = None", "x = 'None'"),
        ("x = 0.0", "x = -0.0"),
        ("x = f'{a}'", "x = f'{a!r}'"),
        ("x = f'{a}'", "x = f'a'"),
        ("x = f'{a:b}'", "x = f'{a:{b}}'"),
        ("x = f'{a}b{c}'", "x = f'{a}{c}b'"),
        ("x = f'a' + b", "x = f'a{b}'"),
        ("x = 'a,b'", "x = 'a', 'b'"),
        ("x = {**a, **b}", "x = {**b, **a}"),
        ("x = {a: None}", "x = {None: a}"),
        ("x = {None: a}", "x = {**a}"),
        ("def f(*, a): pass", "def f(*, a=None): pass"),
        ("def f(a, /): pass", "def f(a): pass"),
        ("def f(a, *b): pass", "def f(*a, b): pass"),
        ("def f(a=1): pass", "def f(a): pass"),
        ("def f(): return", "def f(): yield"),
        ("async def f(): pass", "def f(): pass"),
        ("def f(): return 'a'", "def f(): 'a'"),
        ("def f(): a; 'a'", "def f(): 'a'; b"),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("for a in b: c\nelse: d", "for a in b: c\nd"),
        ("x[a:b]", "x[a, b]"),
        ("x[a:]", "x[:a]"),
        ("a - b - c", "a - (b - c)"),
        ("from a import b", "from .a import b"),
        ("from a import b", "import a as b"),
        ("import a", "import a as b"),
        ("f(*a)", "f(a)"),
        ("f(**a)", "f(*a)"),
        ("f(a=b)", "f(a, b)"),
        ("[a for b in c]", "(a for b in c)"),
        ("match a:\n    case None: pass", "match a:\n    case True: pass"),
        ("match a:\n    case b: pass", "match a:\n    case 'b': pass"),
        ("del x", "x"),
    ],
)
def test_sources_with_different_meanings_differ(first: str, second: str) -> None:
    assert canonical_source.canonical(first) != canonical_source.canonical(second)


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
                          st.binary(max_size=5)), min_size=2, max_size=2))  # fmt: skip
def test_constants_are_equal_if_and_only_if_their_sources_are(values: list) -> None:
    first, second = map(repr, values)
    equal = canonical_source.canonical(first) == canonical_source.canonical(second)
    # A string as the only statement is a docstring.
    docstrings = all(isinstance(value, str) for value in values)
    assert equal is (first == second or docstrings)


def test_invalid_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        canonical_source.canonical("def")
