"""No code decides by the words of a text that other code of ours made.

Looked at are comparisons and searches with a constant of two words or more, those in the message of
a caught exception (``str(error)``, ``error.args``), and calls of `says_out_of_memory`. A message
that was kept in a variable, and a constant of one word, are not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.conftest import ROOT

FOLDERS = [
    ROOT / "src" / "rnnbench",
    ROOT / "src" / "rnnworker",
    ROOT / "src" / "rnnlayers",
    ROOT / "packages" / "rnnweights" / "src" / "rnnweights",
]
# Function of a file → the outside format that it parses.
OUTSIDE = {
    "rnnbench/errors.py converted": "errors of msgspec",
    "rnnbench/grid/overrides.py _error_position": "errors of Hydra",
    "rnnbench/report/charts.py": "Vega-Lite",
    "rnnbench/report/figures.py to_png": "SVG",
    "rnnbench/report/page.py unbroken": "typesetting of a finished page, blanks only",
    "rnnbench/tracking/store.py _translated": "errors of MLflow and SQLAlchemy",
    "rnnbench/workflow/session.py check_slurm": "messages of squeue",
    "rnnworker/cards.py _unknown": "nvidia-smi",
    "rnnworker/data.py _npz": "errors of NumPy",
    "rnnworker/frameworks/keras3_torch.py onednn_version": "build information of torch",
    "rnnworker/frameworks/tensorflow_facts.py onednn_on": "log of TensorFlow",
    "rnnworker/frameworks/tensorflow_facts.py onednn_version": "a header of oneDNN",
    "rnnworker/machine.py processor_facts": "/proc/cpuinfo",
    "rnnworker/members.py out_of_memory": "errors and logs of frameworks",
    "rnnworker/proc_files.py oom_kills": "/proc/vmstat and cgroups",
    "rnnworker/user_functions.py code_of": "errors of frameworks",
    "rnnworker/user_functions.py one_line": "errors of Keras",
    "rnnweights/in_framework.py words": "errors of Keras",
}
METHODS = {"startswith", "endswith", "find", "rfind", "index", "count", "removeprefix"}
METHODS |= {"removesuffix", "split", "rsplit", "partition", "rpartition", "splitlines"}
PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "split", "sub"}


def is_sentence(node: ast.AST) -> bool:
    """Whether it is a constant text with words: a blank between two letters or more."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    words = [word for word in node.value.split(" ") if any(map(str.isalpha, word))]
    return len(words) > 1


def is_message(node: ast.AST, caught: set[str]) -> bool:
    """Whether it is the text of an exception that a handler caught: `str(error)`, `error.args`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        takes_text = node.func.id in {"str", "repr"}
        return takes_text and bool(node.args) and is_caught(node.args[0], caught)
    if isinstance(node, ast.Subscript):
        return is_message(node.value, caught)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_message(node.func.value, caught)  # str(error).lower()
    if isinstance(node, ast.Attribute) and node.attr in {"args", "message"}:
        return is_caught(node.value, caught)
    return False


def is_caught(node: ast.AST, caught: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in caught


def operands_that_decide(node: ast.AST) -> list[ast.expr]:
    """The texts that a comparison, a search or a division of a text looks at."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return [item for side in sides for item in elements(side)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
            return node.args if node.func.attr in PATTERNS else []
        if node.func.attr in METHODS and node.args:  # split() only makes blanks single
            return [node.func.value, *[item for each in node.args for item in elements(each)]]
    return []


def elements(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return node.elts
    return [node]


def searched(tree: ast.AST) -> Iterator[ast.AST]:
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
    names = {name for name in caught if name}
    for node in ast.walk(tree):
        searches = isinstance(node, ast.Call) and ast.unparse(node.func) == "says_out_of_memory"
        texts = operands_that_decide(node)
        if searches or any(is_sentence(text) or is_message(text, names) for text in texts):
            yield node


def found() -> dict[str, list[str]]:
    """``file function`` → what it asks of a text."""
    places: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.py")):
            tree = ast.parse(file.read_text())
            inside = functions(tree)
            for node in searched(tree):
                name = f"{file.relative_to(folder.parent)} {inside.get(node, '')}".strip()
                places.setdefault(name, []).append(ast.unparse(node))
    return places


def functions(tree: ast.AST) -> dict[ast.AST, str]:
    """Node → name of the innermost function around it."""
    inside: dict[ast.AST, str] = {}
    for node in ast.walk(tree):  # outer functions come first
        if isinstance(node, ast.FunctionDef):
            for child in ast.walk(node):
                inside[child] = node.name
    return inside


def test_only_texts_from_outside_are_searched() -> None:
    """A line of the list that no longer applies is to be removed."""
    assert set(found()) == set(OUTSIDE)


def test_each_form_of_a_search_is_found() -> None:
    searches = [
        "'memory ran out' in text",
        "text.startswith('no memory')",
        "text == 'not trained'",
        "re.search('ran out', text)",
        "str(error).partition(':')",
        "error.args[0] == 'x'",
        "'x' in str(error).lower()",
        "says_out_of_memory(text)",
    ]
    for search in searches:
        code = f"try:\n    pass\nexcept OSError as error:\n    {search}\n"
        assert list(searched(ast.parse(code))), search
    assert not list(searched(ast.parse("text in names; text.split(':'); status == 'refused'")))
