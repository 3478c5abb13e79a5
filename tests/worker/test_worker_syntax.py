"""The worker runs on Python 3.6 and imports nothing but the allowed packages."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rnnworker

ROOT = Path(rnnworker.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Modules added after 3.6 or removed since; the rest of the standard library may be imported.
NOT_IN_3_6 = {"dataclasses", "contextvars", "graphlib", "tomllib", "zoneinfo", "imp", "distutils"}
FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "torch", "jax"}
COMPILE = """
import sys
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        compile(file.read(), name, "exec")
print("compiled", len(sys.argv) - 1)
"""


def imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            names.add((node.module or "").partition(".")[0])
    return names


def python36() -> str | None:
    """Returns Python 3.6 from pyenv, or a working one on PATH (a shim of pyenv may fail)."""
    candidates = []
    if pyenv := shutil.which("pyenv"):
        for version in subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True
        ).stdout.split():
            if version.startswith("3.6."):
                prefix = subprocess.run([pyenv, "prefix", version], capture_output=True, text=True)
                candidates.append(f"{prefix.stdout.strip()}/bin/python3.6")
    candidates.append(shutil.which("python3.6") or "")
    for candidate in filter(None, candidates):
        try:
            result = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        except OSError:
            continue
        if result.stdout.startswith("Python 3.6"):
            return candidate
    return None


def test_all_files_are_checked() -> None:
    assert {"run.py", "events.py", "block.py", "keras_session.py"} <= {f.name for f in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_syntax_of_python_3_6(file: Path) -> None:
    ast.parse(file.read_bytes(), filename=str(file), feature_version=(3, 6))


def test_a_real_python_3_6_compiles_it_all() -> None:
    python = python36()
    if python is None:
        pytest.skip("no Python 3.6 on this machine: only the syntax was checked")
    output = subprocess.check_output([python, "-c", COMPILE, *map(str, FILES)], text=True)
    assert output.strip() == f"compiled {len(FILES)}"


def test_a_real_python_3_6_runs_modules_without_dependencies(tmp_path: Path) -> None:
    python = python36()
    if python is None:
        pytest.skip("no Python 3.6 on this machine: the worker's modules were not run by it")
    script = (
        "import os\n"
        "from rnnworker import events, machine, processors, turns, user_functions\n"
        "events_ = events.Events(1)\nphases_ = turns.Phases(events_, turns.Turns(events_))\n"
        "with phases_.phase('train', timed=True) as details: details['x'] = float('nan')\n"
        "assert machine.fingerprint()['machine']\n"
    )
    output = subprocess.check_output(
        [python, "-c", script], text=True, env={**os.environ, "PYTHONPATH": str(ROOT.parent)}
    )
    assert '"phase_end"' in output.splitlines()[-1]
    assert '"x": null' in output.splitlines()[-1]


def test_imports_are_standard_library_numpy_and_the_framework_only() -> None:
    allowed = (set(sys.stdlib_module_names) - NOT_IN_3_6) | {"rnnworker", "numpy"}
    for file in FILES:
        extra = imports(file) - allowed
        package = file.relative_to(ROOT).parts[0]
        if package in ("frameworks", "kernels", "recurrent"):
            # Before Python 3.8, pkg_resources lists the installed packages.
            extra -= {*FRAMEWORKS, "pkg_resources"}
        assert not extra, f"{file} imports {extra}"


def test_a_framework_is_imported_late() -> None:
    """Importing a module of the worker does not import the framework, which takes seconds."""
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert (module or "").partition(".")[0] not in FRAMEWORKS, file
