"""Digests of the worker's code: which edits cause a rerun; equal in every Python version."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnbench.builds.uv import find
from rnnbench.errors import ConfigError
from rnnbench.planning import digests
from rnnworker.frameworks import FRAMEWORKS
from tests.conftest import ROOT

SOURCE = Path(digests.__file__).parents[2] / "rnnworker"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editable copy of the worker's code."""
    copy = tmp_path / "src" / "rnnworker"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digests, "_ROOT", copy)
    return copy


def config_of(
    implementation: str = "keras",
    framework: str = "keras3_tensorflow",
    module: str = "rnnworker.models.digits_rnn",
    function: str | None = None,
) -> dict:
    model = {"function": function or f"{module}:build", "data": {"prepare": f"{module}:prepare"}}
    build = {"framework": framework}
    return {"build": build, "rnn": {"implementation": implementation}, "model": model}


def digest(*arguments: str, **keywords: str) -> str:
    """The digest of the worker's code as it is now, for `config_of` the arguments."""
    digests.parsed.cache_clear()
    digests._tree.cache_clear()
    digests._digest.cache_clear()
    return digests.worker_digest(config_of(*arguments, **keywords))


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


SCRIPT = """
import json, sys
from rnnbench.planning import digests
for config in json.load(sys.stdin):
    print(digests.worker_digest(config))
    print(digests.certifier_digest([config]))
    print(digests.prober_digest([config]))
"""


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_another_python_version_has_the_same_digests(version: str) -> None:
    pythons = find("3.11"), find(version)
    if None in pythons:
        pytest.skip(f"no Python 3.11 or no {version} on this machine to compare digests")
    configs = [
        config_of(implementation, framework, f"rnnworker.models.{model}")
        for framework in sorted(set(FRAMEWORKS.values()))
        for implementation in ("keras", "native", "contrib", "block")
        for model in ("digits_rnn", "imdb_bilstm", "lstm_textgen")
    ]
    digests, others = [
        subprocess.run(
            [str(python), "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
            input=json.dumps(configs),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.split()
        for python in pythons
    ]
    assert digests == others
    assert len(set(digests)) == len(digests) == 3 * len(configs)


# Comments, docstrings and blank lines; code that the run does not use.
WITHOUT_RERUN = [
    ("data.py", "import io\n", "# A comment.\nimport io\n"),
    ("data.py", "import io\n", "import io\n\n\n"),
    ("data.py", '"""A text file, UTF-8."""', '"""Other words."""'),
    ("canonical_weights.py", '"""Canonical weights: a', '"""Other words'),
    ("turns.py", '"""Opens, closes', '"""Another docstring of a class'),
    ("kernels/block.py", "GATES = 4", "GATES = 5"),
    ("frameworks/fake.py", "0.9", "0.8"),
    ("certify.py", "STEPS = 20", "STEPS = 21"),
    ("reference.py", "0.5 * value", "0.6 * value"),
    ("members.py", "import os", "import os, sys"),
    ("frameworks/names.py", '"keras3_tensorflow", "fake"', '"fake"'),
    ("options.py", '"none": (),', '"none": (), "another": (),'),
    ("kernels/native.py", "batch_first=True", "batch_first=False"),
]
WITH_RERUN = [
    ("data.py", "100003", "100019"),
    ("run.py", "FAILED_IN_RUN = 3", "FAILED_IN_RUN = 4"),
    ("frameworks/keras_training.py", "verbose=0", "verbose=1"),
    ("frameworks/keras3_tensorflow.py", "enabled = False", "enabled = True"),
    ("frameworks/__init__.py", '"build.framework', '"The build.framework'),
    ("__main__.py", "sys.exit(main", "sys.exit(0 or main"),
    ("kernels/keras.py", "use_cudnn=False", "use_cudnn=True"),
    ("recurrent/composed.py", '"use_cudnn"', '"cudnn"'),
    ("processors.py", "thread, cores", "thread, cores[:1]"),
    ("turns.py", "self._lead -= 1", "self._lead -= 2"),
    ("attest.py", '"XlaLaunch"', '"XlaLaunched"'),
    ("recurrent/cells.py", "reset_after=True", "reset_after=False"),
    ("models/digits_rnn.py", "softmax", "sigmoid"),
]


@pytest.mark.parametrize(
    ("edited", "counts"),
    [*((edited, False) for edited in WITHOUT_RERUN), *((edited, True) for edited in WITH_RERUN)],
)
def test_code_that_the_run_uses_causes_a_rerun(
    worker: Path, edited: tuple[str, str, str], counts: bool
) -> None:
    file, old, new = edited
    before = digest()
    edit(worker / file, old, new)
    assert (digest() != before) is counts


@pytest.mark.parametrize("name", ["step.py", "frameworks/other.py", "kernels/other.py"])
def test_a_new_file_that_is_not_imported_causes_no_rerun(worker: Path, name: str) -> None:
    before = digest(), digest("fake", "fake")
    (worker / name).write_text("from rnnworker import machine\n")
    assert (digest(), digest("fake", "fake")) == before


def test_a_run_without_keras_does_not_use_its_code(worker: Path) -> None:
    before = digest("fake", "fake")
    edit(worker / "frameworks/keras_training.py", "verbose=0", "verbose=1")
    assert digest("fake", "fake") == before


def test_imports_of_a_user_supplied_model_count(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build():\n    import rnnworker.readers.imdb\n")
    before = digest(function=f"{mine}:build")
    edit(worker / "readers/imdb.py", '"train": 113', '"train": 114')
    assert digest(function=f"{mine}:build") != before


def test_an_error_names_an_invalid_model_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build(:\n")
    with pytest.raises(ConfigError, match=r"mine\.py: cannot be read as Python"):
        digest(function=f"{mine}:build")


def test_implementations_and_frameworks_differ(worker: Path) -> None:
    digests = {digest(), digest("block_cell"), digest("native"), digest("block")}
    assert len({*digests, digest("fake", "fake")}) == 5


def test_a_user_supplied_model_file_counts(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build():\n    '''What it is.'''\n    return 1\n")
    reference = {"function": f"{mine}:build"}
    before = digest(**reference)
    edit(mine, "What it is", "What it was")
    assert digest(**reference) == before
    edit(mine, "return 1", "return 2")
    assert digest(**reference) != before


def test_a_user_supplied_kernel_file_counts_for_its_runs_only(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("# a scan\nfrom rnnworker.kernels.block import GATES\nUNROLLED = 1\n")
    before, others = digest(str(mine)), digest()
    edit(mine, "a scan", "a loop")
    assert digest(str(mine)) == before
    edit(worker / "kernels/block.py", "GATES = 4", "GATES = 5")
    imported = digest(str(mine))
    edit(mine, "UNROLLED = 1", "UNROLLED = 2")
    assert len({before, imported, digest(str(mine))}) == 3
    assert digest() == others


def test_a_missing_model_file_has_a_digest(worker: Path) -> None:
    assert digest(function="/no/such/file.py:build") != digest()


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("certify.py", "STEPS = 20", "STEPS = 21", True),
        ("reference.py", "0.5 * value", "0.6 * value", True),
        ("kernels/block.py", "GATES = 4", "GATES = 5", True),
        ("recurrent/layer.py", "self.units = units", "self.units = int(units)", True),
        ("kernels/native.py", "batch_first=True", "batch_first=False", False),
    ],
)
def test_code_that_a_certificate_depends_on(
    worker: Path, file: str, old: str, new: str, counts: bool
) -> None:
    def certifier_digest() -> str:
        digests.parsed.cache_clear()
        digests._tree.cache_clear()
        digests._digest.cache_clear()
        return digests.certifier_digest([config_of("keras"), config_of("block")])

    before = certifier_digest()
    edit(worker / file, old, new)
    assert (certifier_digest() != before) is counts


VERSIONS = ("3.11", "3.12", "3.13")
# Reads a JSON list of sources and prints the digests of their canonical forms.
CANONICAL = """
import ast, hashlib, json, sys, warnings
from rnnbench.planning.digests import canonical
warnings.simplefilter("ignore")
texts = [canonical(ast.parse(text)) for text in json.load(sys.stdin)]
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


def digests_in(version: str, texts: list[str]) -> list[str]:
    python = find(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine to compare digests with")
    process = subprocess.run(
        [str(python), "-c", CANONICAL],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def canonical(text: str) -> str:
    return digests.canonical(ast.parse(text))


def local_digests(texts: list[str]) -> list[str]:
    return [hashlib.sha256(canonical(text).encode()).hexdigest() for text in texts]


@pytest.mark.parametrize("version", VERSIONS)
def test_difficult_snippets_are_the_same_in_every_version(version: str) -> None:
    pairs = zip(SNIPPETS, local_digests(SNIPPETS), digests_in(version, SNIPPETS), strict=True)
    assert [text for text, local, other in pairs if local != other] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_project_is_the_same_in_every_version(version: str) -> None:
    files = [file for folder in ("src", "tests") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert ROOT / "src/rnnworker/run.py" in files
    texts = [file.read_text(encoding="utf-8") for file in files]
    pairs = zip(files, local_digests(texts), digests_in(version, texts), strict=True)
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
    assert canonical(first) == canonical(second)


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
    assert canonical(first) != canonical(second)


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
                          st.binary(max_size=5)), min_size=2, max_size=2))  # fmt: skip
def test_constants_are_equal_if_and_only_if_their_sources_are(values: list) -> None:
    first, second = map(repr, values)
    equal = canonical(first) == canonical(second)
    # A string as the only statement is a docstring.
    docstrings = all(isinstance(value, str) for value in values)
    assert equal is (first == second or docstrings)
