"""`rnnbench.planning.digests`: which edits of the worker's code cause a rerun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rnnbench.builds.uv import find
from rnnbench.errors import ConfigError
from rnnbench.planning import digests
from rnnworker.frameworks import FRAMEWORKS

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
    digests._parsed.cache_clear()
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


def test_the_same_code_has_the_same_digest(worker: Path) -> None:
    assert digest() == digest()
    assert len(digest()) == 64


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("data.py", "import io\n", "# A comment.\nimport io\n"),
        ("data.py", "import io\n", "import io\n\n\n"),
        ("data.py", '"""A text file, UTF-8."""', '"""Other words."""'),
        ("canonical_weights.py", '"""Canonical weights: a', '"""Other words'),
        ("turns.py", '"""Opens, closes', '"""Another docstring of a class'),
    ],
)
def test_comments_docstrings_and_blank_lines_cause_no_rerun(
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
        ("__main__.py", "sys.exit(main", "sys.exit(0 or main"),
        ("kernels/keras.py", "use_cudnn=False", "use_cudnn=True"),
        ("recurrent/composed.py", '"forward_"', '"forwards_"'),
        ("processors.py", "thread, cores", "thread, cores[:1]"),
        ("turns.py", "self._lead -= 1", "self._lead -= 2"),
        ("attest.py", '"XlaLaunch"', '"XlaLaunched"'),
        ("recurrent/cells.py", "reset_after=True", "reset_after=False"),
        ("models/digits_rnn.py", "softmax", "sigmoid"),
    ],
)
def test_code_that_the_run_uses_causes_a_rerun(worker: Path, file: str, old: str, new: str) -> None:
    before = digest()
    edit(worker / file, old, new)
    assert digest() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kernels/block.py", "GATES = 4", "GATES = 5"),
        ("frameworks/fake.py", "0.9", "0.8"),
        ("certify.py", "STEPS = 20", "STEPS = 21"),
        ("reference.py", "0.5 * value", "0.6 * value"),
        ("members.py", "import os", "import os, sys"),
        ("frameworks/names.py", '"keras3_tensorflow", "fake"', '"fake"'),
        ("options.py", '"none": (),', '"none": (), "another": (),'),
        ("kernels/native.py", "batch_first=True", "batch_first=False"),
    ],
)
def test_code_that_the_run_does_not_use_does_not_count(
    worker: Path, file: str, old: str, new: str
) -> None:
    before = digest()
    edit(worker / file, old, new)
    assert digest() == before


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
    with pytest.raises(ConfigError, match=r"mine\.py: is not valid Python"):
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
        digests._parsed.cache_clear()
        digests._tree.cache_clear()
        digests._digest.cache_clear()
        return digests.certifier_digest([config_of("keras"), config_of("block")])

    before = certifier_digest()
    edit(worker / file, old, new)
    assert (certifier_digest() != before) is counts
