"""No mapping without types crosses the boundary of a package: a reader sees from a signature which
fields there are. Exceptions are listed with their reasons."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.conftest import ROOT

SOURCES = ROOT / "src"
LOOSE = re.compile(r"\b(dict|Dict|Mapping|MutableMapping)\[(str|Any), Any\]")

CONFIG = "the config that Hydra has composed: a model of one's own has keys that no type knows"
JOB = "what a worker is to do"
LOOP = "overrides a method of the worker's loop, whose runs become jobs"
ALLOWED = {
    "grid.expand.expand": CONFIG,
    "grid.files.check_own_code": CONFIG,
    "grid.requirements.unmet": CONFIG,
    "planning.digests.serving_digest": CONFIG,
    "planning.digests.worker_digest": CONFIG,
    "planning.planner.unmet_at": CONFIG,
    "running.round.LocalRound.obstacle": LOOP,
    "running.round.LocalRound.peaks": LOOP,
    "running.round.LocalRound.skip": LOOP,
    "running.worker.job_of": JOB,
}


def modules() -> dict[str, ast.Module]:
    """Name → syntax tree, of the controller and of the worker, whose aliases it uses."""
    found = {}
    for package in ("rnnbench", "rnnworker"):
        for file in sorted((SOURCES / package).rglob("*.py")):
            parts = file.relative_to(SOURCES).with_suffix("").parts
            found[".".join(parts)] = ast.parse(file.read_text())
    return found


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imported(tree: ast.Module) -> dict[str, str]:
    """Name in a module → the full name of what it has imported so."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


class Types:
    """Which annotations contain a loose mapping, or an alias of one."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.imported = {module: imported(tree) for module, tree in trees.items()}
        self.aliases: set[str] = set()
        size = -1
        while len(self.aliases) > size:  # an alias may be made of others
            size = len(self.aliases)
            for module, tree in trees.items():
                for node in tree.body:
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                        name = node.targets[0].id
                        is_type = isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name)
                        if is_type and name != name.upper() and self.are_loose(module, node.value):
                            self.aliases.add(f"{module}.{name}")

    def are_loose(self, module: str, annotation: ast.expr) -> bool:
        if LOOSE.search(ast.unparse(annotation)):
            return True
        names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        known = self.imported[module]
        return any(known.get(name, f"{module}.{name}") in self.aliases for name in names)


def signatures(body: list[ast.stmt], above: str = "") -> Iterator[tuple[str, list[ast.expr]]]:
    """The public functions and methods with the annotations of their parameters and result."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from signatures(node.body, f"{above}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            arguments += [each for each in (given.vararg, given.kwarg) if each]
            annotations = [each.annotation for each in arguments if each.annotation]
            if node.returns:
                annotations.append(node.returns)
            yield f"{above}{node.name}", annotations


def uses(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Full name of a function, or ``.NAME`` of an attribute of anything → packages that use it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        known = imported(tree)
        package = package_of(module)
        for full in known.values():
            found[full].add(package)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                of = known.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
                name = f"{of}.{node.attr}" if of in trees else f".{node.attr}"
                found[name].add(package)
    return found


def loose_at_boundaries() -> set[str]:
    """The public functions and methods with a loose mapping in their signature, whose name another
    package of the controller uses."""
    trees = modules()
    types = Types(trees)
    controller = {name: tree for name, tree in trees.items() if name.startswith("rnnbench.")}
    used = uses(controller)
    found = set()
    for module, tree in controller.items():
        for name, signature in signatures(tree.body):
            _, dot, method = name.rpartition(".")
            users = used[f".{method}" if dot else f"{module}.{name}"] - {package_of(module)}
            if users and any(types.are_loose(module, each) for each in signature):
                found.add(f"{module.removeprefix('rnnbench.')}.{name}")
    return found


def test_no_mapping_without_types_crosses_a_boundary() -> None:
    assert loose_at_boundaries() == set(ALLOWED)
