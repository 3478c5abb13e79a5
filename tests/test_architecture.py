"""The diagram of the packages in ARCHITECTURE.md matches the imports."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import ROOT

CONTROLLER = ROOT / "src" / "rnnbench"
WORKER = ROOT / "src" / "rnnworker"
CONVERTER = ROOT / "packages" / "rnnweights" / "src" / "rnnweights"
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
COMMON = {"axes", "errors", "locks", "plain_text", "project"}


def imports(file: Path, *, at_once: bool = False) -> set[str]:
    """What `file` imports; `at_once`: without what its functions import later."""
    tree = ast.parse(file.read_text())
    names: set[str] = set()
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def libraries(names: Iterable[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def package_of(file: Path) -> str:
    return file.relative_to(CONTROLLER).parts[0].removesuffix(".py")


def drawn_imports() -> dict[str, set[str]]:
    """Package → packages it may import, from the mermaid diagram."""
    diagram = re.search(r"```mermaid\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert diagram
    drawn: dict[str, set[str]] = {}
    for sources, targets in re.findall(r"^ *([\w &]+) --> (.*)$", diagram.group(1), re.M):
        for source in sources.split(" & "):
            assert source not in drawn
            drawn[source] = set(targets.split(" & "))
    return drawn


def test_diagram_matches_imports() -> None:
    actual: dict[str, set[str]] = {}
    for file in CONTROLLER.rglob("*.py"):
        package = package_of(file)
        ours = {name.split(".")[1] for name in imports(file) if name.startswith("rnnbench.")}
        if others := ours - COMMON - {package}:
            actual.setdefault(package, set()).update(others)
    started = {"__main__", "__init__", "cli"}
    assert {name: actual[name] for name in set(actual) - started - COMMON} == drawn_imports()


def test_libraries_are_imported_in_their_packages_only() -> None:
    for file in CONTROLLER.rglob("*.py"):
        allowed = {name for name, packages in ALLOWED_IN.items() if package_of(file) in packages}
        forbidden = (FRAMEWORKS | set(ALLOWED_IN)) - allowed
        assert not libraries(imports(file)) & forbidden, file
    for file in WORKER.rglob("*.py"):
        assert not libraries(imports(file)) & NOT_FOR_WORKERS, file


def test_the_converter_needs_nothing_of_the_instrument() -> None:
    """It is a distribution of its own; what runs in a framework's Python imports the framework."""
    for file in CONVERTER.rglob("*.py"):
        assert not libraries(imports(file)) & {"rnnbench", "rnnworker", "rnnlayers"}, file
        if file.name != "in_framework.py":
            assert not libraries(imports(file)) & (FRAMEWORKS | NOT_FOR_WORKERS), file


def test_what_the_controller_imports_of_the_worker_needs_the_standard_library_only() -> None:
    names = set().union(*map(imports, CONTROLLER.rglob("*.py")))
    reached = {name for name in names if name.startswith("rnnworker.")}
    reached.add("rnnworker.bundle")  # run on a machine that may have Python alone
    seen: set[Path] = set()
    while reached:
        name = reached.pop().split(".")[1:]
        for parts in (name, name[:-1]):
            file = WORKER.joinpath(*parts).with_suffix(".py")
            if parts and file.exists() and file not in seen:
                seen.add(file)
                found = imports(file, at_once=True)
                assert libraries(found) <= {"rnnworker", *sys.stdlib_module_names}, file
                reached |= {name for name in found if name.startswith("rnnworker.")}
    assert len(seen) > 10
