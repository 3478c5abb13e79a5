"""Measures the report's seconds, memory and page size for 100, 1,000 and 10,000 records.

    .venv/bin/python benchmarks/report_scale.py [RECORDS … | --small]

The records are synthetic (``tests/factory.py``): five implementations, five batch sizes, four
numbers of units and two cells on as many devices as needed, ten repeats of ten epochs. Each size
runs in a separate process, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.plan_file import Experiment  # noqa: E402
from rnnbench.records.record import Record  # noqa: E402
from rnnbench.report.content import Content  # noqa: E402
from rnnbench.report.page import write_report  # noqa: E402
from tests.factory import BEGINNING, make_record, replace  # noqa: E402

IMPLEMENTATIONS = {"keras": 0.52, "cell": 0.53, "unrolled": 0.43, "block": 0.47, "auto": 0.51}
REPEATS = 10
SIZES = (100, 1_000, 10_000)
EXPERIMENT = Experiment("scale", "Synthetic records", "", {"rnn": "keras"})


def records(count: int) -> list[Record]:
    """`count` records in blocks of repeats; about 1 % are suspect and 1 % void."""
    generator, synthetic = random.Random(0), []
    configurations = itertools.product(
        [f"cpu_{2**power}" for power in range(5)], ("lstm", "gru"),
        (32, 64, 128, 256), (16, 32, 64, 128, 256), IMPLEMENTATIONS.items(),
    )  # fmt: skip
    configurations = list(itertools.islice(configurations, max(1, count // REPEATS)))
    for repeat, (device, cell, units, batch, (rnn, level)) in itertools.product(
        range(REPEATS), configurations
    ):
        level *= generator.gauss(1, 0.015) * units / 64 / int(device.rpartition("_")[2]) ** 0.5
        chance = generator.random()
        record = make_record(
            rnn=rnn, device=device, repeat=repeat, order=len(synthetic),
            overrides={"model.units": units, "model.batch": batch},
            epoch_seconds=[level * generator.gauss(1, 0.008) for _ in range(10)],
            verdict="void" if chance < 0.01 else "suspect" if chance < 0.02 else "clean",
            started=BEGINNING + timedelta(seconds=9 * len(synthetic)),
        )  # fmt: skip
        name = record.name.replace("lstm", cell)
        synthetic.append(replace(record, choices={**record.run.choices, "cell": cell}, name=name))
    return synthetic


def measure(count: int) -> str:
    """A row of the table: records, wall seconds, CPU seconds of this process (more reliable if the
    machine is busy), peak MiB, MB of the page, number of files."""
    synthetic = records(count)
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = time.perf_counter(), time.process_time()
        paths = write_report(Content(synthetic, EXPERIMENT), Path(folder))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        page = paths[0].stat().st_size / 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    row = (f"{len(synthetic):,}", f"{seconds:.1f}", f"{cpu:.1f}", f"{peak:.0f}", f"{page:.2f}")
    return f"| {' | '.join(row)} | {len(paths)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=int, nargs="*", default=SIZES)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    add_small(parser)
    options = parser.parse_args()
    if options.one:
        print(measure(options.records[0]))
        return 0
    if options.small:
        options.records = [REPEATS * len(IMPLEMENTATIONS)]
    print(where.heading())
    print("| records | s | CPU s | peak RSS, MiB | page, MB | files |\n|--:|--:|--:|--:|--:|--:|")
    for count in options.records:
        subprocess.run([sys.executable, __file__, "--one", str(count)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
