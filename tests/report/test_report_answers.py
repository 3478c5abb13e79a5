"""Every figure of docs/answers.md stands in the report that the committed records give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rnnbench import cli
from rnnworker import machine
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "answers.md"
RECORDS = {
    file.stem.partition("+")[0]: file for file in (ROOT / "reports" / "answers").glob("*.zip")
}
PUBLISHED = re.compile(r"Published.*?(?=\.(?: |$)|$)")
RATIO = re.compile(r"(\d[\d.]*×) \((\d[\d.]*–\d[\d.]*)\)")
NAMED = re.compile(rf"`(\w+)` (?:is )?{RATIO.pattern}")
RATIO_LAST = re.compile(r"(\d[\d.]*×), (\d[\d.]*–\d[\d.]*)")
SPREAD = re.compile(r"(0\.\d+) (± 0\.\d+)")
SECONDS = re.compile(r"(\d[\d.]*) (?:µs|ms|s)\b")
DECIMAL = re.compile(r"(?<!TensorFlow )\b\d+\.\d+")


def evidence() -> dict[str, str]:
    """Experiment → what its rows say that was measured here, of those with a number. A row without
    a name continues the one above."""
    found: dict[str, str] = {}
    experiment = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith(("| `", "| …")):
            question, _, text = (cell.strip() for cell in line.strip("|").split(" | ", 2))
            named = re.match("`([^`]+)`", question)
            experiment = named[1] if named else experiment
            text = PUBLISHED.sub("", text)
            if DECIMAL.search(text):
                found[experiment] = f"{found.get(experiment, '')} {text}"
    return found


EVIDENCE = evidence()


def test_every_answer_with_a_number_has_its_records() -> None:
    assert set(RECORDS) == set(EVIDENCE)
    assert all(RATIO.search(text) or SECONDS.search(text) for text in EVIDENCE.values())


def tier_of(experiment: str) -> object:
    """One archive in the quick tier: that of the report in this repository."""
    if experiment == "quick":
        return experiment
    return pytest.param(experiment, marks=pytest.mark.slow_tier("the pages of all archives"))


@pytest.mark.parametrize("experiment", map(tier_of, sorted(RECORDS)))
def test_the_figures_are_those_of_the_records(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(machine, "key", lambda facts: "elsewhere")  # whose results these are not
    file = RECORDS[experiment]
    results, out = ("--results", str(tmp_path / "results")), tmp_path / "report"
    assert cli.main(["import", str(file), *results]) == 0
    assert cli.main(["report", file.stem, *results, "--out", str(out)]) == 0
    report = (out / "report.md").read_text(encoding="utf-8")
    text = EVIDENCE[experiment]
    for ratio, span in RATIO.findall(text) + RATIO_LAST.findall(text):
        assert f"{ratio} | {span}" in report.replace(" †", ""), (ratio, span)
    rows = report.replace(" †", "").replace("\\_", "_").splitlines()
    for name, ratio, span in NAMED.findall(text):
        assert any(name in row and f"{ratio} | {span}" in row for row in rows), (name, ratio)
    assert all(f"| {value} |" in report for value in SECONDS.findall(text))
    for mean, spread in SPREAD.findall(text):
        assert f"{mean} | {spread}" in report
    assert set(DECIMAL.findall(text)) <= set(DECIMAL.findall(report))
    if experiment == "quick":
        remake = "`rnnbench import` its archive, then `rnnbench report quick --out reports/example`"
        assert (ROOT / "reports/example/report.md").read_text() == report, remake
