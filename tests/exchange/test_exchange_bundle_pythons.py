"""Bundles on a machine where the Python of a build lacks its framework."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import make_project
from tests.exchange.bundles import bundle, run


def bundle_of_two_builds(folder: Path) -> Path:
    """A bundle of the fake build and of a build with torch, which the tests' Python lacks."""
    project = make_project(folder / "home")
    (project.conf / "build/lacking.yaml").write_text(
        "framework: keras3_torch\npython: python3\nenvironment: {}\n"
    )
    (project.conf / "experiment/two.yaml").write_text(
        "title: x\nprobe: false\ngrids:\n"
        "- model=digits_rnn rnn=keras build=lacking model.epochs=1 repeat=0,1\n"
        "- model=fake rnn=fake_fast build=fake\n"
    )
    return bundle(project, "two", folder / "bundle")


def python_without_torch(folder: Path) -> Path:
    """This interpreter, with NumPy and without torch and Keras."""
    python = folder / "python"
    hidden = "import sys; sys.modules.update(torch=None, keras=None)"
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(hidden)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/site exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_python_without_the_framework_is_reported_once_and_first(tmp_path: Path) -> None:
    folder = bundle_of_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    for _ in range(2):  # a failed build is tried again
        result = run(folder, "--python", f"lacking={python}", "--no-certificates")
        assert result.returncode == 3, result.stdout + result.stderr
        first, *others = result.stdout.splitlines()
        assert first.startswith(f"build lacking cannot run: {python} has no torch and no keras;")
        assert "--python lacking=PATH" in first
        assert not any("lacking" in line for line in others), result.stdout
        assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1
        assert not list(folder.glob("out/*lacking*/*/outcome.json"))
    skipped = json.loads((folder / "out/skipped.json").read_text())
    assert len(skipped) == 2 and "has no torch" in next(iter(skipped.values()))
    absent = run(folder, "--python", "lacking=/no/such/python", "--no-certificates")
    assert absent.returncode == 3 and "/no/such/python cannot be started" in absent.stdout


def test_a_framework_that_cannot_be_imported_ends_only_its_build(tmp_path: Path) -> None:
    folder = bundle_of_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    (tmp_path / "site" / "sitecustomize.py").unlink()
    for name in ("torch", "keras"):
        (tmp_path / "site" / f"{name}.py").write_text("raise OSError('libcudart is not here')")
    result = run(folder, "--python", f"lacking={python}", "--no-certificates")
    assert result.returncode == 3, result.stdout + result.stderr
    assert result.stdout.count("build lacking cannot run") == 1
    assert "in phase import: OSError: libcudart is not here" in result.stdout
    assert len(list(folder.glob("out/*lacking*/*/outcome.json"))) == 1
    assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1
