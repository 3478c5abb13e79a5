"""Every ratio and verdict of reports/published/claims.md, computed from the rows beside it."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from rnnbench.report import numbers as n
from rnnbench.sources.published import Comparison, read_published
from rnnbench.tables.published import published_frame, published_pairs
from tests.conftest import ROOT

FOLDER = ROOT / "reports" / "published"
LAYERS = "ASH1998/mnist-CuDNNLSTM"
STEPS = "StackOverflow 49987261"
ARTICLE = "minimaxir/deep-learning-cpu-gpu-benchmark"
COMPILED = "build=compiled (SSE4.2/AVX/FMA)"
I5 = "Intel i5-4690"
RTX = "device=RTX 2070, Intel i7-9700K"


class Claim(NamedTuple):
    """Rows divided by base rows with equal `by`; the mean for each value of the columns `each`
    must lie between `low` and `high`."""

    source: str
    rows: str
    base: str
    by: str
    low: float = 0.0
    high: float = math.inf
    ratio: str = "time"
    each: str = ""


CLAIMS = {
    "almost 10 times faster": Claim(
        LAYERS, "implementation=LSTM", "implementation=CuDNNLSTM", "device", 9, 10
    ),
    "7.5× on a K80": Claim(
        LAYERS,
        "implementation=LSTM; device=Tesla K80",
        "implementation=CuDNNLSTM",
        "device",
        7.45,
        7.55,
    ),
    "12.5× on a P100": Claim(
        LAYERS,
        "implementation=LSTM; device=Tesla P100",
        "implementation=CuDNNLSTM",
        "device",
        12.45,
        12.55,
    ),
    "15× over the other LSTM": Claim(
        STEPS, f"implementation=LSTM; {RTX}", "implementation=CuDNNLSTM", "device", 14.5, 15.5
    ),
    "54× over the CPU": Claim(
        STEPS,
        f"device={I5} (CPU only)",
        f"implementation=CuDNNLSTM; {RTX}",
        "workload",
        53.5,
        54.5,
    ),
    "2.5× on a GTX 950": Claim(
        STEPS, f"device={I5} (CPU only)", f"device=GTX 950, {I5}", "workload", 2.45, 2.55
    ),
    "ignorable gain on a GTX 970": Claim(
        STEPS, f"device=GTX 950, {I5}", f"device=GTX 970, {I5}", "workload", high=1.1
    ),
    "very minimal gain on an RTX 2070": Claim(
        STEPS, f"device=GTX 970, {I5}", f"implementation=LSTM; {RTX}", "workload", high=1.1
    ),
    "a GPU is twice as slow as any CPU": Claim(
        ARTICLE,
        "device=Tesla K80; workload=imdb_bidirectional_lstm",
        "device=Intel Skylake vCPU",
        "workload",
        1.95,
        each="vcpus_base build_base",
    ),
    "30–40 % from compiling": Claim(
        ARTICLE, "build=pip; vcpus=8|16", COMPILED, "workload vcpus", 1.3, 1.4
    ),
    "compiling helps only with 8 and 16 vCPUs": Claim(
        ARTICLE, "build=pip; vcpus=32|64", COMPILED, "workload vcpus", high=1.05, each="vcpus"
    ),
    "16 vCPUs and compiled": Claim(
        ARTICLE,
        "",
        f"vcpus=16; {COMPILED}",
        "workload",
        1,
        ratio="larger",
        each="device vcpus build",
    ),
    "64 vCPUs are as slow as 32": Claim(ARTICLE, "vcpus=64", "vcpus=32", "workload build", 0.95),
    "64 vCPUs at two thirds of the price": Claim(
        ARTICLE, "vcpus=64", "device=Tesla K80", "workload", 0.65, 0.7, "price"
    ),
    "CPUs are cheaper only if preemptible": Claim(
        ARTICLE,
        "device=Intel Skylake vCPU",
        "device=Tesla K80",
        "workload",
        0.2,
        ratio="cost",
        each="vcpus build",
    ),
}
# The rows have no such numbers: accuracies of other layers, bounds, evaluate(), standard prices.
UNDECIDED = {
    "cuDNN does not change the accuracy",
    "under a minute instead of 10 min 30 s",
    "evaluate() and predict() are faster",
    "preemptible for 20 % of the price",
}


def ratios_of(claim: Claim) -> dict[str, float]:
    """The geometric means, by the text of what they are for (none: ``""``)."""
    table = published_frame(read_published(FOLDER))
    exact = table[~table["below"].astype(bool)]
    comparison = Comparison(source=claim.source, rows=claim.rows, base=claim.base, by=claim.by)
    needed = "cost" if claim.ratio == "larger" else claim.ratio
    pairs = published_pairs(exact, comparison).dropna(subset=needed)
    keys = pd.Series("", index=pairs.index)
    if claim.each:
        keys = pairs[claim.each.split()].apply(name_of, axis=1)
    means = np.exp(np.log(pairs[["time", "cost", "price"]]).groupby(keys, sort=False).mean())
    means["larger"] = means[["time", "cost"]].max(axis=1)
    return means[claim.ratio].to_dict()


def name_of(row: pd.Series) -> str:
    """The values that a mean is for: ``8, pip``."""
    known = row.dropna()
    return ", ".join(f"{value:g}" if n.is_number(value) else value for value in known)


def shown(ratios: dict[str, float]) -> str:
    if len(ratios) > 4:
        return f"{n.ratio(min(ratios.values()))} to {n.ratio(max(ratios.values()))}"
    return "; ".join(f"{key}: {n.ratio(ratio)}".removeprefix(": ") for key, ratio in ratios.items())


def verdict(claim: Claim, ratios: dict[str, float]) -> str:
    outside = [ratio for ratio in ratios.values() if not claim.low <= ratio <= claim.high]
    if outside:
        text = f": {len(outside)} of {len(ratios)} outside the range"
        return "does not hold" + (text if len(ratios) > 1 else "")
    return "not contradicted" if claim.ratio == "larger" else "holds"


@pytest.fixture(scope="module")
def page() -> dict[str, list[str]]:
    """Claim → the cells of its line: verdict, ratio, what is divided, its bounds."""
    lines = {}
    for line in (FOLDER / "claims.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "claim":
            lines[cells[0]] = cells[1:]
    return lines


def test_each_ratio_and_verdict_of_the_page_is_that_of_the_rows(page: dict[str, list[str]]) -> None:
    assert set(page) == {*CLAIMS, *UNDECIDED}
    for name in UNDECIDED:
        assert page[name] == ["cannot say", "–", "–", "–"], name
    for name, claim in CLAIMS.items():
        ratios = ratios_of(claim)
        said, ratio, _, bounds = page[name]
        assert (said, ratio) == (verdict(claim, ratios), shown(ratios)), name
        stated = [float(number) for number in re.findall(r"[\d.]+", bounds)]
        given = [bound for bound in (claim.low, claim.high) if 0 < bound < math.inf]
        assert stated == given, name
