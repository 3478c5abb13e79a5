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
    return imports_of(ast.walk(ast.parse(file.read_text())))


def imports_of(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
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


def imported_at_once(file: Path) -> set[str]:
    """What importing `file` imports, without what its functions import later."""
    nodes = ast.parse(file.read_text()).body
    return imports_of(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def test_what_the_controller_imports_of_the_worker_needs_the_standard_library_only() -> None:
    names = set().union(*map(imports, CONTROLLER.rglob("*.py")))
    reached = {name for name in names if name.split(".")[0] == "rnnworker"}
    # Layouts of weights are converted with NumPy; rnnbench.weights is imported by its command.
    reached -= {name for name in reached if name.startswith("rnnworker.kernels")}
    reached.add("rnnworker.bundle")  # run on a machine that may have Python alone
    seen: set[Path] = set()
    while reached:
        name = reached.pop().split(".")[1:]
        for parts in (name, name[:-1]):
            file = WORKER.joinpath(*parts).with_suffix(".py")
            if parts and file.exists() and file not in seen:
                seen.add(file)
                found = imported_at_once(file)
                others = {other for other in found if other.split(".")[0] != "rnnworker"}
                assert {n.split(".")[0] for n in others} <= set(sys.stdlib_module_names), file
                reached |= found - others
    assert len(seen) > 10
