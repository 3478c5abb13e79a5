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


def by_hand(tables: Path, device: str) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Round → member → effect, and the rounds that count."""
    logs: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    states = {}
    for row in rows_of(tables / "turns.csv"):
        if row["device"] == device:
            states[row["round"]] = int(row["state"])
            if row["counts"] == "1":
                t = math.log(float(row["seconds"]) / int(row["steps"]))
                logs[row["round"]][row["implementation"]][int(row["cycle"])] = t
    effects: dict[str, dict[str, float]] = defaultdict(dict)
    for name, members in logs.items():
        for one, of_one in members.items():
            medians = [
                statistics.median(of_one[cycle] - of_other[cycle] for cycle in of_one)
                for of_other in members.values()
            ]
            effects[name][one] = statistics.fmean(medians)
    quiet = [name for name in effects if states[name] == 0]
    partly = [name for name in effects if states[name] <= 1]
    return effects, quiet if len(quiet) >= 3 else partly or list(effects)


def spreads(effects: dict[str, dict[str, float]], kept: list[str]) -> dict[str, float]:
    """Steps 7 to 9: the variance of each member."""
    members, rounds = list(effects[kept[0]]), len(kept)
    squares = {}
    for member in members:
        own = [effects[name][member] for name in kept]
        squares[member] = (rounds - 1) * statistics.variance(own)
    count = len(members)
    common = sum(squares.values()) / (count - 1) / (rounds - 1)
    found = {}
    for member in members:
        alone = (squares[member] / (rounds - 1) - common / count) / (1 - 2 / count)
        found[member] = (2 * common + (rounds - 1) * max(0.0, alone)) / (rounds + 1)
    return found


T = {(2, 4): 3.875480, (3, 4): 2.776445}  # rounds, members → t of step 10


@pytest.mark.parametrize("device", ["cpu_1", "cpu_2"])
def test_the_steps_give_the_ratios_of_the_page(tables: Path, device: str) -> None:
    rows = {row["rnn"]: row for row in rows_of(tables / "time.csv") if row["device"] == device}
    effects, kept = by_hand(tables, device)
    variances = spreads(effects, kept)
    for own in ("block", "cell", "unrolled"):
        logs = [effects[name]["keras"] - effects[name][own] for name in kept]
        mean = statistics.fmean(logs)
        assert float(rows[own]["speedup"]) == pytest.approx(math.exp(mean), rel=1e-5)
        half = math.sqrt((variances[own] + variances["keras"]) / len(kept))
        half *= T[len(kept), len(variances)]
        if "slowed" not in rows[own]["method"]:
            high = float(rows[own]["speedup_high"])
            assert high == pytest.approx(math.exp(mean + half), rel=1e-5)


def test_the_example_is_that_of_the_records(tables: Path) -> None:
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    example = text[text.index("An example is in") : text.index("A test computes this.")]
    effects, kept = by_hand(tables, "cpu_1")
    logs = {name: each["keras"] - each["block"] for name, each in effects.items()}
    variances = spreads(effects, kept)
    mean = statistics.fmean(logs[name] for name in kept)
    half = 2.776445 * math.sqrt((variances["block"] + variances["keras"]) / 3)
    counted = sorted(logs[name] for name in kept)
    others = [log for name, log in logs.items() if name not in kept]
    deviations = [math.sqrt(variances[name]) for name in ("block", "keras")]
    shown = [*counted, *others, mean, *deviations, 2.776, mean, math.exp(mean), mean, half]
    shown += [math.exp(mean - half), math.exp(mean + half)]
    found = [float(number) for number in re.findall(NUMBER, example)]
    assert found == pytest.approx(shown, abs=6e-3), shown
    (row,) = (
        row
        for row in rows_of(tables / "time.csv")
        if (row["rnn"], row["device"]) == ("block", "cpu_1")
    )
    page = [float(row[name]) for name in ("speedup", "speedup_low", "speedup_high")]
    assert page == pytest.approx([math.exp(mean), *shown[-2:]], rel=1e-4)
