"""The picture of the rooms in ARCHITECTURE.md is what the imports are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conftest import ROOT

CONDUCTOR = ROOT / "src" / "rnnbench"
WORKER = ROOT / "src" / "rnnworker"
FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "torch", "jax"}
ABOVE_THE_WORKER = {"rnnbench", "hydra", "omegaconf", "mlflow", "pandas", "dvc", "snakemake"}
HOMES = {
    "hydra": {"grid"},
    "omegaconf": {"grid"},
    "mlflow": {"tracking"},
    "dvc": {"datasets"},
    "pandas": {"tables", "report"},
    "altair": {"report"},
    "great_tables": {"report"},
}
# Small files of the house itself, open to every room.
COMMON = {"errors", "locks", "interval_log"}


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(file: Path) -> str:
    return file.relative_to(CONDUCTOR).parts[0].removesuffix(".py")


def drawn() -> dict[str, set[str]]:
    """Room → rooms it may use, from the mermaid picture."""
    arrows: dict[str, set[str]] = {}
    picture = re.search(r"```mermaid\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert picture
    for line in picture.group(1).splitlines():
        if "-->" in line:
            source, targets = line.split("-->")
            arrows.setdefault(source.strip(), set()).update(
                target.strip() for target in targets.split("&")
            )
    return arrows


def found() -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for file in CONDUCTOR.rglob("*.py"):
        room = room_of(file)
        for name in imports(file):
            if name.startswith("rnnbench."):
                target = name.split(".")[1]
                if target != room:
                    arrows.setdefault(room, set()).add(target)
    return arrows


def test_picture_matches_imports() -> None:
    used = {
        room: targets - COMMON
        for room, targets in found().items()
        if room not in {"__main__", "cli", *COMMON} and targets - COMMON
    }
    assert used == drawn()


def test_conductor_imports_no_framework() -> None:
    for file in CONDUCTOR.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(file)} & FRAMEWORKS, file


def test_worker_imports_nothing_of_the_conductor() -> None:
    for file in WORKER.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(file)} & ABOVE_THE_WORKER, file


def test_heavy_libraries_stay_in_their_rooms() -> None:
    for file in CONDUCTOR.rglob("*.py"):
        for library in {name.split(".")[0] for name in imports(file)} & set(HOMES):
            assert room_of(file) in HOMES[library], f"{file} imports {library}"


def test_conductor_uses_of_the_worker() -> None:
    uses = {
        name
        for file in CONDUCTOR.rglob("*.py")
        for name in imports(file)
        if name.split(".")[0] == "rnnworker"
    }
    modules = {".".join(name.split(".")[:2]) for name in uses}
    assert modules <= {
        "rnnworker",
        "rnnworker.machine",
        "rnnworker.affinity",
        "rnnworker.attest",
        "rnnworker.cards",
        "rnnworker.certificate_jobs",
        "rnnworker.members",
        "rnnworker.options",
        "rnnworker.precision",
        "rnnworker.recurrent",
        "rnnworker.rounds",
    }
