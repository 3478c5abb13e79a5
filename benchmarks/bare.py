"""What the planning is compared with: Snakefiles of trivial jobs and nothing else.

`trivial`: as many jobs as runs, one output each. `same_graph`: the jobs, inputs and outputs of the
experiment (``workflow/rules``), as trivial: each round needs a store and a dataset, batches of
rounds are tracked, a report takes all batches; no parameters, functions, priorities or logs.
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


def pointers(wildcards):
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
        ancient("prepared/store"),
        ancient("prepared/dataset"),
    output:
        "out/{{number}}",
    shell:
        "touch {{output}}"


rule track:
    input:
        pointers,
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
    """Writes the Snakefile; returns the files that its jobs make."""
    _write(folder, TRIVIAL.format(count=count))
    return [f"out/{number}" for number in range(count)]


def same_graph(folder: Path, count: int, batch: int) -> list[str]:
    """The same with the experiment's graph. `count`: rounds; `batch`: how many of them are
    tracked together."""
    _write(folder, SAME_GRAPH.format(count=count, batch=batch))
    batches = -(-count // batch)
    made = ["prepared/store", "prepared/dataset", *(f"out/{number}" for number in range(count))]
    return [*made, *(f"tracked/{number}" for number in range(batches)), "report"]


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Snakefile").write_text(text)
