"""What the planning is compared with: a Snakefile of as many trivial jobs and nothing else."""

from __future__ import annotations

from pathlib import Path

SNAKEFILE = """
rule all:
    input:
        expand("out/{{number}}", number=range({count})),


rule one:
    output:
        "out/{{number}}",
    shell:
        "touch {{output}}"
"""


def write(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Snakefile").write_text(SNAKEFILE.format(count=count))
