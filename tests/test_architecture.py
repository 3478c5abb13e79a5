"""The diagram of the packages in ARCHITECTURE.md matches the imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conftest import ROOT

CONTROLLER = ROOT / "src" / "rnnbench"
WORKER = ROOT / "src" / "rnnworker"
FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "torch", "jax"}
NOT_FOR_WORKERS = {"rnnbench", "hydra", "omegaconf", "mlflow", "pandas", "dvc", "snakemake"}
# Library → the packages that may import it.
ALLOWED_IN = {
    "hydra": {"grid"},
    "omegaconf": {"grid"},
    "mlflow": {"tracking"},
    "dvc": {"datasets"},
    "pandas": {"tables", "report"},
}
# Small modules that every package may import.
COMMON = {"axes", "errors", "locks", "plain_text"}


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(file: Path) -> str:
    return file.relative_to(CONTROLLER).parts[0].removesuffix(".py")


def drawn_imports() -> dict[str, set[str]]:
    """Package → packages it may import, from the mermaid diagram."""
    arrows: dict[str, set[str]] = {}
    diagram = re.search(r"```mermaid\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert diagram
    for line in diagram.group(1).splitlines():
        if "-->" in line:
            source, targets = line.split("-->")
            arrows.setdefault(source.strip(), set()).update(
                target.strip() for target in targets.split("&")
            )
    return arrows


def actual_imports() -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for file in CONTROLLER.rglob("*.py"):
        package = package_of(file)
        for name in imports(file):
            if name.startswith("rnnbench."):
                target = name.split(".")[1]
                if target != package:
                    arrows.setdefault(package, set()).add(target)
    return arrows


def test_diagram_matches_imports() -> None:
    actual = {
        package: targets - COMMON
        for package, targets in actual_imports().items()
        if package not in {"__main__", "cli", *COMMON} and targets - COMMON
    }
    assert actual == drawn_imports()


def test_controller_imports_no_framework() -> None:
    for file in CONTROLLER.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(file)} & FRAMEWORKS, file


def test_worker_imports_nothing_from_the_controller() -> None:
    for file in WORKER.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(file)} & NOT_FOR_WORKERS, file


def test_heavy_libraries_are_imported_in_their_packages_only() -> None:
    for file in CONTROLLER.rglob("*.py"):
        for library in {name.split(".")[0] for name in imports(file)} & set(ALLOWED_IN):
            assert package_of(file) in ALLOWED_IN[library], f"{file} imports {library}"


def test_controller_imports_few_modules_of_the_worker() -> None:
    names = {
        name
        for file in CONTROLLER.rglob("*.py")
        for name in imports(file)
        if name.split(".")[0] == "rnnworker"
    }
    modules = {".".join(name.split(".")[:2]) for name in names}
    assert modules <= {
        "rnnworker",
        "rnnworker.machine",
        "rnnworker.affinity",
        "rnnworker.attest",
        "rnnworker.cards",
        "rnnworker.certificate_jobs",
        "rnnworker.cohorts",
        "rnnworker.forked_workers",
        "rnnworker.frameworks",
        "rnnworker.kernels",
        "rnnworker.members",
        "rnnworker.memory",
        "rnnworker.options",
        "rnnworker.precision",
        "rnnworker.random_reads",
        "rnnworker.rounds",
        "rnnworker.workers",
    }
