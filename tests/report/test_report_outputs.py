"""Every file below a report's folder is an output of the workflow's rule `report`."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from rnnbench.workflow.job import Job
from tests.conftest import ROOT
from tests.factory import make_record
from tests.report.made_up import SIX, inputs, six

EVERYTHING = six()
VALUES = st.text("a1/.:,; é", max_size=3) | st.integers(-1, 1) | st.none()
RECORDS = st.lists(
    st.builds(
        make_record,
        model=st.sampled_from(["digits_rnn", "mnist_rnn"]),
        cell=st.sampled_from(["lstm", "gru"]),
        rnn=st.sampled_from(["keras", "block"]),
        device=st.sampled_from(["cpu_1", "cpu_2", "v100"]),
        build=st.sampled_from(["current", "tf_1_15"]),
        repeat=st.integers(0, 2),
        epochs=st.integers(1, 3),
        acc=st.sampled_from([0.97, None]),
        verdict=st.sampled_from(["clean", "suspect", "void"]),
        overrides=st.dictionaries(st.sampled_from(["model.units", "model.note"]), VALUES),
    ),
    max_size=6,
    unique_by=lambda record: record.key,
)


def declared(folder: str) -> tuple[set[str], str]:
    """The files that the rule names, and the folder whose files it does not name."""
    rules = (ROOT / "workflow/rules/report.smk").read_text()
    output = rules.partition("rule report:")[2].partition("output:")[2].partition("log:")[0]
    assert "job.other_report_files" in output and "directory(job.figures)" in output
    job = SimpleNamespace(report_folder=folder)
    others = Job.other_report_files.fget(job)  # type: ignore[attr-defined]
    named = re.findall(r'f"\{job\.report_folder\}/([^"]+)"', output)
    return {f"{folder}/{name}" for name in named} | set(others), f"{folder}/figures/"


@cache
def earlier() -> Content:
    """That of a report which is replaced."""
    return Content(EVERYTHING[:6], SIX)


# Looking for the smallest results of a fault takes minutes: each makes a page.
UNSHRUNK = (Phase.generate,)
any_results = given(
    made_up=RECORDS,
    kept=st.sets(st.integers(0, len(EVERYTHING) - 1), max_size=12),
    with_inputs=st.booleans(),
    before=st.booleans(),
)


@settings(max_examples=4, deadline=None, phases=UNSHRUNK)
@any_results
def test_every_file_of_a_report_is_a_declared_output(
    made_up: list[Record], kept: set[int], with_inputs: bool, before: bool
) -> None:
    check_files(made_up, kept, with_inputs, before)


@pytest.mark.slow_tier("many reports")
@settings(max_examples=8, deadline=None, phases=UNSHRUNK)
@any_results
def test_every_file_of_many_reports_is_a_declared_output(
    made_up: list[Record], kept: set[int], with_inputs: bool, before: bool
) -> None:
    check_files(made_up, kept, with_inputs, before)


def check_files(made_up: list[Record], kept: set[int], with_inputs: bool, before: bool) -> None:
    """For any results, also in the folder of an earlier report that had others."""
    records = [EVERYTHING[number] for number in sorted(kept)] + made_up
    beside = {"beside": inputs()} if with_inputs else {}
    with tempfile.TemporaryDirectory() as name:
        folder = f"{name}/reports/x"
        if before:
            write_report(earlier(), Path(folder))
        write_report(Content(records, SIX, **beside), Path(folder))
        written = {path.as_posix() for path in Path(folder).rglob("*") if path.is_file()}
        named, figures = declared(folder)
        assert {path for path in written if not path.startswith(figures)} == named
