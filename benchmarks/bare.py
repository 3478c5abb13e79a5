"""Snakefiles of trivial jobs, with which `planning.py` compares the workflow.

`trivial` has as many jobs as runs, with one output each. `same_graph` has the jobs, inputs and
outputs of the experiment (``workflow/rules``): each batch of rounds needs a dataset and is tracked
in a store, and a report needs all batches. Its jobs have no parameters, functions,
priorities or logs.
"""

from __future__ import annotations

from pathlib import Path

TRIVIAL = """
rule all:
    input:
        expand("out/{{number}}", number=range({count})),


rule one:
    output:
        "out/{{number}}",
    shell:
        "touch {{output}}"
"""
SAME_GRAPH = """
batches = [range({count})[i : i + {batch}] for i in range(0, {count}, {batch})]


def rounds(wildcards):
    return [f"out/{{number}}" for number in batches[int(wildcards.batch)]]


rule all:
    input:
        expand("out/{{number}}", number=range({count})),
        "report",


rule prepared:
    output:
        "prepared/{{what}}",
    shell:
        "touch {{output}}"


rule one:
    input:
        "prepared/dataset",
    output:
        "out/{{number}}",
    shell:
        "touch {{output}}"


rule track:
    input:
        "prepared/store",
        rounds,
    output:
        "tracked/{{batch}}",
    shell:
        "touch {{output}}"


rule report:
    input:
        expand("tracked/{{batch}}", batch=range(len(batches))),
    output:
        "report",
    shell:
        "touch {{output}}"
"""


def trivial(folder: Path, count: int) -> list[str]:
    """Writes the Snakefile of `count` jobs. Returns the files that the jobs make."""
    _write(folder, TRIVIAL.format(count=count))
    return [f"out/{number}" for number in range(count)]


def same_graph(folder: Path, count: int, batch: int) -> list[str]:
    """Writes the Snakefile of `count` rounds, `batch` of which are tracked together. Returns the
    files that the jobs make."""
    _write(folder, SAME_GRAPH.format(count=count, batch=batch))
    batches = -(-count // batch)
    files = ["prepared/store", "prepared/dataset", *(f"out/{number}" for number in range(count))]
    return [*files, *(f"tracked/{number}" for number in range(batches)), "report"]


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Snakefile").write_text(text)
