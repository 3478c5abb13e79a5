"""The worker runs on Python 3.6 and imports nothing but the allowed packages."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.builds.uv import find
from rnnweights import in_framework
from tests.running.test_running_train import planned
from tests.test_architecture import FRAMEWORKS, WORKER, imports
from tests.worker.building import python_of

IN_FRAMEWORK = Path(in_framework.__file__)
LAYERS = WORKER.parent / "rnnlayers"
FILES = sorted([*WORKER.rglob("*.py"), *LAYERS.rglob("*.py"), IN_FRAMEWORK])
# Modules added after 3.6 or removed since; the rest of the standard library may be imported.
NOT_IN_3_6 = {"dataclasses", "contextvars", "graphlib", "tomllib", "zoneinfo", "imp", "distutils"}
COMPILE_AND_RUN = """
import sys
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        compile(file.read(), name, "exec")
print("compiled", len(sys.argv) - 1, flush=True)
from rnnworker import events, machine, processors, turns, user_functions
events_ = events.Events(1)
phases = turns.Phases(events_, turns.Turns(events_))
with phases.phase("train", timed=True) as details:
    details["x"] = float("nan")
assert machine.fingerprint()["machine"]
"""


def test_syntax_of_python_3_6() -> None:
    assert {"run.py", "events.py", "block.py", "keras_session.py"} <= {f.name for f in FILES}
    for file in FILES:
        ast.parse(file.read_bytes(), filename=str(file), feature_version=(3, 6))


def test_a_real_python_3_6_compiles_it_all_and_runs_modules_without_dependencies() -> None:
    python = find("3.6")
    if python is None:
        pytest.skip("no Python 3.6 on this machine: only the syntax was checked")
    output = subprocess.check_output(
        [python, "-c", COMPILE_AND_RUN, *map(str, FILES)],
        text=True,
        env={**os.environ, "PYTHONPATH": str(WORKER.parent)},
    )
    compiled, *_, end = output.splitlines()
    assert compiled == f"compiled {len(FILES)}"
    assert '"phase_end"' in end and '"x": null' in end


@pytest.mark.parametrize("build", ["tf_1_2", "tf_1_15"])
def test_an_old_build_executes_a_run_by_the_path_of_the_worker(
    build: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As the controller starts it, with nothing of ours on Python's path."""
    python, _ = python_of(build, tmp_path_factory)
    job = tmp_path / "job.json"
    facts = {"config": planned()["config"], "threads": 1, "cores": [0], "dataset": None}
    job.write_text(json.dumps(facts))
    done = subprocess.run(
        [python, WORKER, job], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["epoch"] for each in events if each["event"] == "epoch"] == [1, 2]
    assert events[-1]["event"] == "finished"


def test_imports_are_standard_library_numpy_rnnlayers_and_the_framework_only() -> None:
    allowed = (set(sys.stdlib_module_names) - NOT_IN_3_6) | {"rnnworker", "numpy"}
    for file in FILES:
        extra = {name.partition(".")[0] for name in imports(file)} - allowed
        if LAYERS in file.parents:
            assert extra <= {"rnnlayers", *FRAMEWORKS}, f"{file} imports {extra}"
            continue
        if file == IN_FRAMEWORK:
            assert extra <= {"tensorstore", *FRAMEWORKS}, f"{file} imports {extra}"
            continue
        package = file.relative_to(WORKER).parts[0]
        if package in ("frameworks", "kernels", "recurrent"):
            # Before Python 3.8, pkg_resources lists the installed packages.
            extra -= {*FRAMEWORKS, "pkg_resources", "rnnlayers"}
        elif package == "serving":
            extra -= {*FRAMEWORKS, "ml_dtypes", "rnnserve"}  # each TensorFlow 2 has ml_dtypes
        assert not extra, f"{file} imports {extra}"


def test_a_framework_is_imported_late() -> None:
    """Importing a module of the worker does not import the framework, which takes seconds."""
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert (module or "").partition(".")[0] not in FRAMEWORKS, file
