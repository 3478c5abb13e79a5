"""`rnnbench.planning.code_digest`: which edits of the worker make a run run again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rnnbench.builds.interpreters import find
from rnnbench.errors import ConfigError
from rnnbench.planning import code_digest
from rnnworker.frameworks import FRAMEWORKS

SOURCE = Path(code_digest.__file__).parents[2] / "rnnworker"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the worker's code that may be edited."""
    copy = tmp_path / "src" / "rnnworker"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest, "_ROOT", copy)
    return copy


def digest(implementation: str = "keras", framework: str = "keras3_tensorflow", **model) -> str:
    code_digest._tree.cache_clear()
    code_digest._digest.cache_clear()
    model = {"function": "rnnworker.models.digits_rnn:build", **model}
    model.setdefault("data", {"prepare": "rnnworker.models.digits_rnn:prepare"})
    config = {
        "build": {"framework": framework},
        "rnn": {"implementation": implementation},
        "model": model,
    }
    return code_digest.worker_digest(config)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


SCRIPT = """
import json, sys
from rnnbench.planning import code_digest
for config in json.load(sys.stdin):
    print(code_digest.worker_digest(config))
    print(code_digest.certifier_digest([config]))
    print(code_digest.prober_digest([config]))
"""


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_another_python_has_the_same_digests(version: str) -> None:
    here, python = find("3.11"), find(version)
    if here is None or python is None:
        pytest.skip(f"no Python 3.11 or no {version} here: their digests were not compared")
    models = [f"rnnworker.models.{name}" for name in ("digits_rnn", "imdb_bilstm", "lstm_textgen")]
    configs = [
        {
            "build": {"framework": framework},
            "rnn": {"implementation": implementation},
            "model": {"function": f"{model}:build", "data": {"prepare": f"{model}:prepare"}},
        }
        for framework in FRAMEWORKS
        for implementation in ("keras", "native", "contrib", "none")
        for model in models
    ]
    told = [
        subprocess.run(
            [str(one), "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
            input=json.dumps(configs),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.split()
        for one in (here, python)
    ]
    assert told[0] == told[1]
    assert len(set(told[0])) == len(told[0]) == 3 * len(configs)


def test_the_same_code_has_the_same_digest(worker: Path) -> None:
    assert digest() == digest()
    assert len(digest()) == 64


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("data.py", "import io\n", "# A comment.\nimport io\n"),
        ("data.py", "import io\n", "import io\n\n\n"),
        ("data.py", '"""A text file, UTF-8."""', '"""Other words."""'),
        ("canonical_weights.py", '"""Canonical weights: one', '"""Other words'),
        ("phases.py", '"""Opens and closes', '"""Another docstring of a class'),
    ],
)
def test_comments_docstrings_and_blank_lines_rerun_nothing(
    worker: Path, file: str, old: str, new: str
) -> None:
    before = digest()
    edit(worker / file, old, new)
    assert digest() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("data.py", "100003", "100019"),
        ("run.py", "FAILED_IN_RUN = 3", "FAILED_IN_RUN = 4"),
        ("frameworks/keras_training.py", "verbose=0", "verbose=1"),
        ("frameworks/keras3_tensorflow.py", "enabled = False", "enabled = True"),
        ("frameworks/__init__.py", '"build.framework', '"The build.framework'),
        ("frameworks/batches.py", "return", "assert True\n    return"),
        ("__main__.py", "sys.exit(main", "sys.exit(0 or main"),
        ("recurrent/keras.py", "use_cudnn=False", "use_cudnn=True"),
        ("recurrent/both_directions.py", '"forward_"', '"forwards_"'),
        ("affinity.py", "thread, cores", "thread, cores[:1]"),
        ("step_clock.py", "self._lead -= 1", "self._lead -= 2"),
        ("attest.py", '"XlaLaunch"', '"XlaLaunched"'),
        ("recurrent/cells.py", "reset_after=True", "reset_after=False"),
        ("models/digits_rnn.py", "softmax", "sigmoid"),
    ],
)
def test_code_that_the_run_uses_reruns_it(worker: Path, file: str, old: str, new: str) -> None:
    before = digest()
    edit(worker / file, old, new)
    assert digest() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("recurrent/block.py", "GATES = 4", "GATES = 5"),
        ("frameworks/fake.py", "0.9", "0.8"),
        ("certify.py", "STEPS = 20", "STEPS = 21"),
        ("reference.py", "0.5 * value", "0.6 * value"),
        ("members.py", "import os", "import os, sys"),
        ("frameworks/names.py", '"fake"', '"fake", "another"'),
        ("options.py", '"none": (),', '"none": (), "another": (),'),
    ],
)
def test_code_of_others_reruns_nothing(worker: Path, file: str, old: str, new: str) -> None:
    before = digest()
    edit(worker / file, old, new)
    assert digest() == before


@pytest.mark.parametrize("name", ["step.py", "frameworks/other.py", "recurrent/other.py"])
def test_a_file_that_a_run_does_not_reach_reruns_nothing(worker: Path, name: str) -> None:
    before = digest(), digest("fake", "fake")
    (worker / name).write_text("from rnnworker import machine\n")
    assert (digest(), digest("fake", "fake")) == before


def test_a_run_without_keras_reaches_nothing_of_it(worker: Path) -> None:
    before = digest("fake", "fake")
    edit(worker / "frameworks/keras_training.py", "verbose=0", "verbose=1")
    assert digest("fake", "fake") == before


def test_what_a_model_of_ones_own_imports_counts(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build():\n    import rnnworker.readers.mnist\n")
    before = digest(function=f"{mine}:build")
    edit(worker / "readers/mnist.py", "255", "256")
    assert digest(function=f"{mine}:build") != before


def test_a_model_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build(:\n")
    with pytest.raises(ConfigError, match=r"mine\.py: is no Python"):
        digest(function=f"{mine}:build")


def test_implementations_and_frameworks_differ(worker: Path) -> None:
    found = {digest(), digest("cell"), digest("unrolled"), digest("block")}
    assert len({*found, digest("fake", "fake")}) == 5


def test_a_model_file_of_ones_own_counts(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build():\n    '''What it is.'''\n    return 1\n")
    reference = {"function": f"{mine}:build"}
    before = digest(**reference)
    edit(mine, "What it is", "What it was")
    assert digest(**reference) == before
    edit(mine, "return 1", "return 2")
    assert digest(**reference) != before


def test_a_kernel_file_of_ones_own_counts_for_its_runs_alone(worker: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("# a scan\nfrom rnnworker.recurrent.block import GATES\nUNROLLED = 1\n")
    before, others = digest(str(mine)), digest()
    edit(mine, "a scan", "a loop")
    assert digest(str(mine)) == before
    edit(worker / "recurrent/block.py", "GATES = 4", "GATES = 5")
    imported = digest(str(mine))
    edit(mine, "UNROLLED = 1", "UNROLLED = 2")
    assert len({before, imported, digest(str(mine))}) == 3
    assert digest() == others


def test_a_model_file_that_is_missing_is_told_later(worker: Path) -> None:
    assert digest(function="/no/such/file.py:build") != digest()


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("certify.py", "STEPS = 20", "STEPS = 21", True),
        ("reference.py", "0.5 * value", "0.6 * value", True),
        ("recurrent/block.py", "GATES = 4", "GATES = 5", True),
        ("recurrent/layer.py", "self.units = units", "self.units = int(units)", True),
        ("recurrent/unrolled.py", "unroll=True", "unroll=False", False),
    ],
)
def test_a_certificate_is_made_anew_for_what_it_is_made_of(
    worker: Path, file: str, old: str, new: str, counts: bool
) -> None:
    def certified() -> str:
        code_digest._tree.cache_clear()
        code_digest._digest.cache_clear()
        here = "rnnworker.models.digits_rnn:"
        model = {"function": here + "build", "data": {"prepare": here + "prepare"}}
        return code_digest.certifier_digest(
            [
                {
                    "build": {"framework": "keras3_tensorflow"},
                    "rnn": {"implementation": name},
                    "model": model,
                }
                for name in ("keras", "block")
            ]
        )

    before = certified()
    edit(worker / file, old, new)
    assert (certified() != before) is counts
