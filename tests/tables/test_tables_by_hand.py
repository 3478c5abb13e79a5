"""docs/measurement.md, "A ratio by hand": its steps, without any code of the project, give the
ratios of the page from ``turns.csv``."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from rnnbench import cli
from rnnworker import machine
from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "measurement.md"
NUMBER = r"(\d+\.\d+)"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(machine, "key", lambda facts: "elsewhere")  # whose results these are not
        results = ("--results", str(folder / "results"))
        assert cli.main(["import", "reports/answers/quick.zip", *results]) == 0
        assert cli.main(["report", "quick", *results, "--out", str(folder / "report")]) == 0
    return folder / "report" / "tables"


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def by_hand(tables: Path, device: str, own: str, base: str) -> tuple[list[float], list[float]]:
    """The logarithms of the ratio in the rounds that count, and in the others."""
    logs: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    states = {}
    for row in rows_of(tables / "turns.csv"):
        if row["device"] == device:
            states[row["round"]] = int(row["state"])
            if row["counts"] == "1":
                t = math.log(float(row["seconds"]) / int(row["steps"]))
                logs[row["round"]][row["implementation"]][int(row["cycle"])] = t
    ratios = {}
    for name, members in logs.items():
        effects = {}
        for one, of_one in members.items():
            medians = [
                statistics.median(of_one[cycle] - of_other[cycle] for cycle in of_one)
                for of_other in members.values()
            ]
            effects[one] = statistics.fmean(medians)
        ratios[name] = effects[base] - effects[own]
    quiet = [name for name in ratios if states[name] == 0]
    partly = [name for name in ratios if states[name] <= 1]
    kept = quiet if len(quiet) >= 3 else partly or list(ratios)
    return [ratios[name] for name in kept], [ratios[n] for n in ratios if n not in kept]


@pytest.mark.parametrize("device", ["cpu_1", "cpu_2"])
def test_the_steps_give_the_ratios_of_the_page(tables: Path, device: str) -> None:
    rows = {row["rnn"]: row for row in rows_of(tables / "time.csv") if row["device"] == device}
    for own in ("block", "cell", "unrolled"):
        logs, _ = by_hand(tables, device, own, "keras")
        ratio = math.exp(statistics.fmean(logs))
        assert float(rows[own]["speedup"]) == pytest.approx(ratio, rel=1e-5)
        if "pooled" not in rows[own]["method"]:
            assert f"in turns, {len(logs)} rounds" == rows[own]["method"]


def test_the_example_is_that_of_the_records(tables: Path) -> None:
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    example = text[text.index("An example is in") : text.index("A test computes this.")]
    logs, others = by_hand(tables, "cpu_1", "block", "keras")
    half = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    mean = statistics.fmean(logs)
    shown = [*sorted(logs), *others, mean, statistics.stdev(logs), 4.302653, mean]
    found = [float(number) for number in re.findall(NUMBER, example)]
    assert found[:8] == pytest.approx(shown, abs=6e-4)
    bounds = [math.exp(mean), mean, half, math.exp(mean - half), math.exp(mean + half)]
    assert found[8:] == pytest.approx(bounds, abs=6e-3)
    (row,) = (
        row
        for row in rows_of(tables / "time.csv")
        if (row["rnn"], row["device"]) == ("block", "cpu_1")
    )
    page = [float(row[name]) for name in ("speedup", "speedup_low", "speedup_high")]
    assert page == pytest.approx([bounds[0], *bounds[3:]], rel=1e-4)
