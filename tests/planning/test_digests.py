"""Digests of the worker's code: which edits cause a rerun; equal in every Python version."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from rnnbench.builds.uv import find
from rnnbench.planning import digests
from rnnworker.frameworks import FRAMEWORKS
from rnnworker.options import OF_MODEL, OF_THE_FUNCTION, honoured
from tests.conftest import ROOT

SOURCE = Path(digests.__file__).parents[2] / "rnnworker"
LAYERS = SOURCE.parent / "rnnlayers"


@cache
def parsed_bytes(content: bytes) -> ast.Module:
    return ast.parse(content)


def clear() -> None:
    for function in (digests._tree, digests._imports, digests._digest):
        function.cache_clear()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the worker's code, of which the digests are made."""
    copy = tmp_path_factory.mktemp("src") / "rnnworker"
    for package in (SOURCE, LAYERS):
        copied = copy.parent / package.name
        shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "_ROOT", copy)
        # Parsing all files again after each edit takes a quarter of a second.
        patch.setattr(digests, "parsed", lambda file: parsed_bytes(file.read_bytes()))
        patch.setattr(digests, "canonical", cache(digests.canonical))
        clear()
        yield copy
    clear()


@contextmanager
def edited(file: Path, old: str, new: str) -> Iterator[None]:
    """Replaces `old` in the file, as long as the context lasts."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    try:
        yield
    finally:
        file.write_text(text)


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
    return digests.worker_digest(config_of(*arguments, **keywords))


def of_run_and_certificate() -> tuple[str, str]:
    """The digests of the code as it is now."""
    clear()
    return digest(), digests.certifier_digest([config_of("keras"), config_of("block")])


@pytest.fixture(scope="module")
def unedited(worker: Path) -> tuple[str, str]:
    return of_run_and_certificate()


# Comments, docstrings and blank lines; code that neither the run nor its certificate uses.
OF_NEITHER = [
    ("data.py", "import io\n", "# A comment.\nimport io\n"),
    ("data.py", "import io\n", "import io\n\n\n"),
    ("data.py", '"""A text file, UTF-8."""', '"""Other words."""'),
    ("canonical_weights.py", '"""Canonical weights: a', '"""Other words'),
    ("turns.py", '"""Opens, closes', '"""Another docstring of a class'),
    ("frameworks/fake.py", "0.9", "0.8"),
    ("frameworks/names.py", '"fake": Framework', '"other": Framework'),
    ("options.py", '"block": _WEIGHTS', '"block": _LAYER'),
    ("../rnnlayers/native.py", "True,  # batch", "False,  # batch"),
    ("recurrent/layer.py", "self.units = units", "self.units = int(units)"),
    ("members.py", "import os", "import os, sys"),
]
OF_THE_CERTIFICATE = [
    ("certify.py", "STEPS = 20", "STEPS = 21"),
    ("certified_samples.py", "numpy.split(order, steps)", "numpy.split(order[::-1], steps)"),
    ("reference.py", "0.5 * value", "0.6 * value"),
    ("../rnnlayers/block.py", "GATES = 4", "GATES = 5"),
]
OF_BOTH = [
    ("data.py", "100003", "100019"),
    ("run.py", "FAILED_IN_RUN = 3", "FAILED_IN_RUN = 4"),
    ("frameworks/keras_training.py", "verbose=0", "verbose=1"),
    ("frameworks/keras3_tensorflow.py", "enabled = False", "enabled = True"),
    ("frameworks/__init__.py", '"build.framework', '"The build.framework'),
    ("__main__.py", "sys.exit(main", "sys.exit(0 or main"),
    ("../rnnlayers/keras_kernels.py", '"cudnn": True', '"cudnn": False'),
    ("../rnnlayers/keras2_call.py", "if self.stateful", "if not self.stateful"),
    ("recurrent/in_place.py", "allowed=kernel !=", "allowed=kernel =="),
    ("processors.py", "thread, cores", "thread, cores[:1]"),
    ("turns.py", "self._lead -= 1", "self._lead -= 2"),
    ("attest.py", '"XlaLaunch"', '"XlaLaunched"'),
    ("recurrent/cells.py", "reset_after=True", "reset_after=False"),
    ("models/digits_rnn.py", "softmax", "sigmoid"),
]


def test_edits_of_other_code_cause_no_rerun_and_no_certificate(
    worker: Path, unedited: tuple[str, str]
) -> None:
    with ExitStack() as edits:
        for file, old, new in OF_NEITHER:
            edits.enter_context(edited(worker / file, old, new))
        for name in ("step.py", "frameworks/other.py", "kernels/other.py"):  # not imported
            (worker / name).write_text("from rnnworker import machine\n")
            edits.callback((worker / name).unlink)
        assert of_run_and_certificate() == unedited


@pytest.mark.parametrize(
    ("edit", "rerun"), [*((e, False) for e in OF_THE_CERTIFICATE), *((e, True) for e in OF_BOTH)]
)
def test_an_edit_of_used_code_causes_another_certificate_and_maybe_a_rerun(
    worker: Path, unedited: tuple[str, str], edit: tuple[str, str, str], rerun: bool
) -> None:
    file, old, new = edit
    with edited(worker / file, old, new):
        run, certificate = of_run_and_certificate()
    assert certificate != unedited[1]
    assert (run != unedited[0]) is rerun


@pytest.mark.parametrize("change", [{"kernels": {"while": "torch:native"}}, {"engine": "jax"}])
def test_what_the_worker_uses_of_a_framework_s_description_counts_for_its_runs_only(
    worker: Path, monkeypatch: pytest.MonkeyPatch, change: dict
) -> None:
    clear()
    before = digest(framework="keras3_torch"), digest()
    changed = FRAMEWORKS["keras3_torch"]._replace(**change)
    monkeypatch.setitem(digests.FRAMEWORKS, "keras3_torch", changed)
    clear()
    assert digest(framework="keras3_torch") != before[0] and digest() == before[1]
    clear()


def test_code_of_keras_is_not_used_without_it(worker: Path) -> None:
    clear()
    fake = digest("fake", "fake")
    with edited(worker / "frameworks/keras_training.py", "verbose=0", "verbose=1"):
        clear()
        assert digest("fake", "fake") == fake


def test_implementations_frameworks_replicas_and_missing_models_differ(worker: Path) -> None:
    clear()
    one, two = ({**config_of(), "device": {"replicas": number}} for number in (1, 2))
    assert digests.worker_digest(one) == digest() != digests.worker_digest(two)
    found = {digest(), digest("block_cell"), digest("native"), digest("block")}
    found |= {digest("fake", "fake"), digest(function="/no/such/file.py:build")}
    assert len(found) == 6


@pytest.mark.parametrize("kind", ["model", "kernel"])
def test_a_user_supplied_file_and_its_imports_count_for_its_runs_only(
    worker: Path, tmp_path: Path, kind: str
) -> None:
    mine = tmp_path / "of:mine/mine.py"  # a colon also stands before a function
    mine.parent.mkdir()
    mine.write_text(
        "# A comment.\ndef build():\n    '''What it is.'''\n"
        "    import rnnworker.readers.imdb\n    return 1\n"
    )

    def own_and_other() -> tuple[str, str]:
        clear()
        own = digest(str(mine)) if kind == "kernel" else digest(function=f"{mine}:build")
        return own, digest()

    before, other = own_and_other()
    with edited(mine, "A comment", "Another"), edited(mine, "What it is", "What it was"):
        assert own_and_other() == (before, other)
    with edited(mine, "return 1", "return 2"):
        after, same = own_and_other()
        assert after != before and same == other
    with edited(worker / "readers/imdb.py", '"train": 113', '"train": 114'):
        assert own_and_other()[0] != before


# Reads sources and configs as JSON; prints the digests of the sources' canonical forms, and those
# of runs and certificates.
DIGESTS = """
import ast, hashlib, json, sys, warnings
from rnnbench.planning import digests
warnings.simplefilter("ignore")
texts, configs = json.load(sys.stdin)
trees = [digests.canonical(ast.parse(text)) for text in texts]
made = [hashlib.sha256(tree.encode()).hexdigest() for tree in trees]
for config in configs:
    made.append(digests.worker_digest(config))
    made.append(digests.certifier_digest([config]))
print(json.dumps(made))
"""


FILES = sorted([*SOURCE.rglob("*.py"), *LAYERS.rglob("*.py")])
CONFIGS = [
    config_of(implementation, framework, f"rnnworker.models.{model}")
    for framework in sorted({framework.module for framework in FRAMEWORKS.values()})
    for implementation in ("keras", "native", "contrib", "block")
    for model in ("digits_rnn", "imdb_bilstm", "lstm_textgen")
]
RUNNING = "{}.{}".format(*sys.version_info)


@cache
def digests_by(program: str) -> list[str]:
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    process = subprocess.run(
        [program, "-c", DIGESTS],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input=json.dumps([texts, CONFIGS]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


# The one whose grammar differs most in the quick tier.
OTHERS = sorted({"3.11", "3.12", "3.13"} - {RUNNING}, key=lambda text: text == "3.12")
BETWEEN = pytest.param(OTHERS[1], marks=pytest.mark.slow_tier("two other Pythons"))


@pytest.mark.parametrize("version", [OTHERS[0], BETWEEN])
def test_another_python_version_has_the_same_digests(version: str) -> None:
    python = find(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine to compare digests with")
    assert ROOT / "src/rnnworker/run.py" in FILES
    own, others = digests_by(sys.executable), digests_by(str(python))
    names = [*map(str, FILES), *(str(config) for config in CONFIGS for _ in range(2))]
    pairs = zip(names, own, others, strict=True)
    assert [name for name, here, there in pairs if here != there] == []
    of_configs = own[-2 * len(CONFIGS) :]
    assert len(set(of_configs)) == len(of_configs)


def canonical(text: str) -> str:
    return digests.canonical(ast.parse(text))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 1", "x=1  # why\n\n"),
        ("def f():\n  'doc'\n  return 1", "def f():\n\n    return (1)"),
        ("class A:\n    '''doc'''\n    x = 1", "class A:\n    x = 1"),
        ("'''Module.'''\nimport a", "import a"),
        ("x = 'ab'", 'x = ("a"\n  "b")'),
        ("x = f'a{b}c'", "x = (f'a'\n f'{b}' 'c')"),
        ("x = 255", "x = 0xFF"),
        ("x = a, b", "x = (a, b,)"),
        ("x = '\\x41'", "x = 'A'"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(first: str, second: str) -> None:
    assert canonical(first) == canonical(second)


@pytest.mark.parametrize(
    "sources",
    [
        ["x = 1", "x = 1.0", "x = True", "x = '1'", "x = b'1'", "x = a"],
        ["x = f'{a}'", "x = f'{a!r}'", "x = f'{a:b}'", "x = f'{a:{b}}'"],
        ["def f(): return 'a'", "def f(): a; 'a'", "def f(): pass", "def f(): 'a'; b"],
        ["if a:\n    b\nc", "if a:\n    b\n    c"],
        ["a - b - c", "a - (b - c)"],
    ],
)
def test_sources_with_different_meanings_differ(sources: list[str]) -> None:
    assert len(set(map(canonical, sources))) == len(sources)


def test_nothing_that_makes_a_layer_is_left_out_of_the_digest() -> None:
    """What is left out may decide which configs are refused, not what a layer is made of."""
    left_out = {
        "rnnworker." + name.removesuffix(".py").replace("/", ".")
        for name in digests._IGNORED_MODULES
    }
    for file in [*(SOURCE / "kernels").glob("*.py"), *(SOURCE / "models").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")]
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{name}" for name in names)]
            assert left_out.isdisjoint(
                names if isinstance(node, ast.Import | ast.ImportFrom) else ()
            ), file
    of_any_layer = {"rnn": {"implementation": "keras"}, "cell": {"name": OF_MODEL}}
    assert set(OF_THE_FUNCTION) <= set(honoured(of_any_layer))


def test_a_module_of_the_layers_is_part_of_what_imports_it(worker: Path) -> None:
    kernel = worker.parent / "rnnlayers/kernel.py"
    kernel.write_text("STEPS = 1\n")
    try:
        with edited(worker / "attest.py", "LONGEST,", "from rnnlayers import kernel\nLONGEST,"):
            clear()
            before = digest()
            with edited(kernel, "1", "2"):
                clear()
                assert digest() != before
    finally:
        kernel.unlink()
        clear()
