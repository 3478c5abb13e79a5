"""MkDocs hook: generates the reference pages from the code, so that they cannot go out of date."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {"report.png": ROOT / "reports" / "example" / "report.png"}
SCHEMAS = {"Model": "model.json", "Recurrent implementation": "rnn.json"}


def on_files(files: Files, config: Any) -> Files:
    """Adds ``cli.md``, ``tables.md`` and the pictures of the example report."""
    for name, text in {"cli.md": cli(), "tables.md": tables()}.items():
        files.append(File.generated(config, name, content=text))
    for name, path in PICTURES.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Appends the keys of the schemas to the page on configuration, and the public names to that on
    Python."""
    if page.file.src_uri == "python.md":
        markdown += api()
    if page.file.src_uri == "configuration.md":
        markdown += "\n".join(schema(title, name) for title, name in SCHEMAS.items())
    return markdown.replace("../reports/example/", "")


def api() -> str:
    """The signatures and docstrings of the public names of `rnnbench`, and of what they return."""
    import rnnbench
    from rnnbench.report.comparison import Speedup
    from rnnbench.report.prediction import Prediction

    described = {f"rnnbench.{name}": getattr(rnnbench, name) for name in rnnbench.__all__}
    described |= {"Speedup": Speedup, "Prediction": Prediction}
    parts = ["\n## Reference\n"]
    for title, value in described.items():
        name = title.rpartition(".")[2]
        with_members = name in ("Comparison", "Prediction")
        signature = "" if with_members or name == "RnnbenchError" else signature_of(value)
        parts.append(f"### {title}\n")
        parts.append(f"```python\n{name}{signature}\n```\n\n{inspect.getdoc(value)}\n")
        if not with_members:
            continue
        for part, member in vars(value).items():
            function = member.fget if isinstance(member, property) else member
            if not part.startswith("_") and inspect.isfunction(function):
                called = "" if isinstance(member, property) else signature_of(function)
                text = inspect.getdoc(function)
                parts.append(f"**`{name}.{part}{called}`**\n\n{text}\n".replace("(self, ", "("))
    return "\n".join(parts)


def signature_of(function: Any) -> str:
    """The arguments of a function with their types, which are not evaluated."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))


def cli() -> str:
    """The help of every command, as the command prints it."""
    from rnnbench.commands import COMMANDS

    parts = ["# Command line\n", "`rnnbench COMMAND --help` prints the same.\n"]
    for name, summary in COMMANDS.items():
        parts.append(f"## rnnbench {name}\n\n{summary[0].upper()}{summary[1:]}.\n")
        parts.append(f"```text\n{help_of(name)}\n```\n")
    parts.append(EXIT_CODES)
    return "\n".join(parts)


EXIT_CODES = """## Exit codes

| command | code | meaning |
|---|---|---|
| `snakemake` | 0 | every run has a record |
| | 1 | a run failed and has no record; the same command tries again |
| | 2 | the experiment or the command line is wrong |
| | 3 | a configuration has only void runs (0 with `allow_void=true`) |
| `rnnbench` | 0 | done |
| | 1 | something failed while running |
| | 2 | the configuration or the command line is wrong |
| | 130 | interrupted; the same command continues |
"""


def help_of(command: str) -> str:
    """What ``rnnbench COMMAND --help`` prints, 80 columns wide."""
    from rnnbench.cli import main

    output = io.StringIO()
    wide = mock.patch.dict(os.environ, COLUMNS="80")
    with wide, contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return output.getvalue().strip()


def tables() -> str:
    """The docstrings of the functions of ``rnnbench.tables`` that describe columns."""
    parts = ["# Tables\n", INTRODUCTION]
    for path in sorted((ROOT / "src" / "rnnbench" / "tables").glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [
            (node.name, inspect.cleandoc(ast.get_docstring(node) or ""))
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]
        described = [f"**`{name}`**\n\n{text}\n" for name, text in functions if "olumns" in text]
        if described:
            parts.append(f"## {path.stem}\n\n{ast.get_docstring(tree)}\n")
            parts += described
    return "\n".join(parts)


INTRODUCTION = """The report writes its tables as CSV files into `reports/EXPERIMENT/tables/`. The
functions of the package `rnnbench.tables` make them; this is their documentation.

Where a table has "the configuration", that is `model`, `cell` (RNN cell), `build`, `dataset`,
`variant`, `rnn`, `options`, `alias`, `implementation`, `device` and `machine`. `runs` and `suspect`
are numbers of runs unless said otherwise. "With its interval" means the 95 % interval in the
columns with the suffixes `_low` and `_high`, which are missing for a single run.
"""


def schema(title: str, name: str) -> str:
    """The keys of a JSON schema as a Markdown section."""
    file = json.loads((ROOT / "conf" / "schemas" / name).read_text(encoding="utf-8"))
    found = file["$defs"][file["$ref"].rpartition("/")[2]]
    required = found.get("required", [])
    rows = [
        f"| `{key}` | {'yes' if key in required else ''} | {kind(value)} | "
        f"{value.get('description', '')} |"
        for key, value in found["properties"].items()
    ]
    head = f"\n## {title}\n\n| key | required | type | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def kind(value: dict[str, Any]) -> str:
    """The type of a key, as a reader would say it."""
    if "enum" in value:
        return "one of " + ", ".join(f"`{choice}`" for choice in value["enum"])
    kinds = (kind(each) for each in value.get("anyOf", ()))
    return " or ".join(dict.fromkeys(kinds)) or value.get("type", "object")
