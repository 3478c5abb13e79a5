"""The files of a report: complete, self-contained, with void and suspect runs marked."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from datetime import timedelta

import pandas as pd
import pytest

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.answer import answers
from rnnbench.report.content import Content, notes_by_place
from rnnbench.report.notes import ANSWER, LEAD, RELIABILITY
from rnnbench.report.page import write_report
from rnnworker.processors import KNOWN
from tests.factory import BEGINNING, in_round, make_record, replace
from tests.report.made_up import EXPERIMENT, MISSING, SKIPPED, measurements, quick


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    paths = write_report(Content(quick(), EXPERIMENT, skipped=SKIPPED, missing=MISSING), out)
    return out, paths


def notes(records: list[Record], text: str, place: str = RELIABILITY) -> list[str]:
    return [note for note in notes_by_place(measurements(records))[place] if text in note]


@pytest.fixture(scope="module")
def html(report):
    return (report[0] / "report.html").read_text()


def test_all_files_are_there(report):
    out, paths = report
    assert paths[0] == out / "report.html" and all(path.stat().st_size for path in paths)
    tables = {path.name: pd.read_csv(path) for path in paths if path.suffix == ".csv"}
    assert {name: len(table) for name, table in tables.items()} == {
        "accuracy.csv": 8, "time.csv": 8, "runs.csv": 23, "epochs.csv": 23 * 8, "cost.csv": 2,
        "target.csv": 8, "efficiency.csv": 8,  # no alike.csv: two seeds
        "calls.csv": 16,
    }  # fmt: skip
    for path in paths:
        if path.suffix == ".svg":
            ElementTree.parse(path)


def test_the_page_is_self_contained(html):
    assert html.count("<script>") == html.count("<script") == 1 and "@import" not in html
    links = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', html))
    assert links <= {"data:,"}


def test_the_page_has_metadata_for_link_previews(report, html):
    (description,) = re.findall(r'property="og:description" content="([^"]+)"', html)
    assert "as fast as keras on cpu_1" in description and "`" not in description
    (picture,) = re.findall(r'property="og:image" content="([^"]+)"', html)
    assert (report[0] / picture).read_bytes().startswith(b"\x89PNG")


def test_every_table_can_be_copied(html):
    copied = re.findall(r'data-markdown="([^"]+)"', html)
    assert len(copied) > 5 and all("| :--" in table for table in copied)


def test_narrow_screens_get_one_device_at_a_time(html):
    narrow = re.findall(r'<div class="scroll phone .*?</table>', html, re.DOTALL)
    has_cpu_1 = ["cpu_1" in table for table in narrow if 'id="time-' in table]
    assert has_cpu_1 == [True, False]


def test_ids_are_unique_and_references_exist(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:aria-labelledby|headers)="([^"]+)"', html)
    references += re.findall(r'href="#([^"]+)"', html)
    assert set(" ".join(references).split()) <= set(ids)


def test_a_note_links_to_a_section_only_if_it_is_there(html, tmp_path):
    write_report(Content([make_record(), make_record(rnn="block")], EXPERIMENT), tmp_path)
    without = (tmp_path / "report.html").read_text()
    assert 'id="ran"' in html and '<a href="#ran">Not certified</a>: ' in html
    assert 'id="ran"' not in without and ">Not certified: <code>block" in without


def test_headings_are_in_order(html):
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_void_results_are_shown_only_under_reliability_and_in_raw_epochs(tmp_path):
    void = make_record(rnn="block", epoch_seconds=77.125, acc=0.12345, verdict="void")
    write_report(Content([*quick(), void], EXPERIMENT), tmp_path)
    html = (tmp_path / "report.html").read_text()
    before, reliability = html.split('<details class="part" id="trust"')
    shown = re.compile(r"(?<![\d.])(77\.1|0\.123)")  # not as part of a figure's coordinate
    assert not shown.search(before) and "77.1" in reliability
    assert "the loss is not finite from epoch 2." in reliability
    assert "lower the rate." in reliability


def test_a_suspect_run_is_marked(report, html):
    markdown = (report[0] / "report.md").read_text()
    row = next(line for line in markdown.splitlines() if line.startswith("| cell |"))
    assert row.count("†") == 2  # its seconds and its speed-up on cpu_2, nothing on cpu_1
    assert "cell †" in html


def test_missing_and_skipped_runs_are_listed(report, html):
    for text in (html, (report[0] / "report.md").read_text()):
        assert MISSING[0] in text and "cuDNN runs on NVIDIA GPUs only" in text
        assert "This page shows 21 ratios" in text and "about 1.1 would appear to differ" in text


def test_text_from_users_is_escaped(tmp_path):
    evil = Experiment("x", "<script>alert(1)</script>", "a | <b>", {"rnn": "keras"})
    record = make_record(hardware={"cpu": "<img src=x>"}, measured={"kernel": "<i>|"})
    write_report(Content([record], evil, faults=["<u>"]), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"<(img|i|u|b)\b", page) and page.count("<script") == 1
    assert "<img" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    "records", [[], [make_record(verdict="void", epochs=0, phases=())], [make_record(epochs=1)]]
)
def test_few_or_no_runs_still_give_a_page(tmp_path, records):
    write_report(Content(records, EXPERIMENT, missing=["a"], faults=["b: broken."]), tmp_path)
    assert "b: broken." in (tmp_path / "report.html").read_text()


def test_ratios_of_runs_with_too_few_turns_are_pointed_out():
    for cycles, caveats in ((9, 0), (3, 1)):
        rounds = [[make_record(rnn=rnn, repeat=r) for rnn in ("keras", "block")] for r in range(3)]
        records = [
            record
            for number, members in enumerate(rounds)
            for record in in_round(members, [0.1, -0.1], cycles, number=number)
        ]
        found = notes(records, "too few undisturbed turns")
        assert len(found) == caveats
    assert found[0].startswith("6 runs of digits_rnn shared")


@pytest.mark.parametrize(
    ("cycles", "disturbed", "text"),
    [(9, (), None), (20, (2, 5), "10 % of the cycles. Ratios and seconds leave these cycles out"),
     (9, range(6), "67 % of the cycles. Ratios and seconds leave 0 of these 6 cycles out")],
)  # fmt: skip
def test_disturbed_cycles_are_pointed_out(cycles, disturbed, text):
    records = in_round([make_record(rnn=rnn) for rnn in ("keras", "block")], [0.1, -0.1], cycles,
                       disturbed)  # fmt: skip
    found = notes(records, "Other processes")
    assert len(found) == (text is not None)
    assert text is None or text in found[0]


def slowed_rounds(slow: int, unequal: float) -> list[Record]:
    """Three rounds of 30 cycles, the last of which are twice as long, and in which block is faster
    by `unequal` as well."""
    steady = lambda cycle: 1 + 0.001 * (cycle % 4)  # noqa: E731
    records = []
    for number in range(3):
        members = [make_record(rnn=rnn, repeat=number) for rnn in ("keras", "block")]
        for record in in_round(members, [0.0, -0.4], 30, number=number):
            factor = math.exp(-unequal) if record.run.choices["rnn"] == "block" else 1.0
            base = 0.01 * (math.exp(-0.4) if record.run.choices["rnn"] == "block" else 1.0)
            seconds = [
                base * steady(cycle) * (2 * factor if cycle >= 30 - slow else 1)
                for cycle in range(30)
            ]
            records.append(replace(record, turns={**record.turns, "seconds": seconds}))
    return records


@pytest.mark.parametrize("slow", [0, 12])
def test_the_answer_is_that_of_the_undisturbed_machine(slow):
    records = slowed_rounds(slow, 0.2)
    answer = str(answers(measurements(records))[0])
    assert "1.49× as fast" in answer
    assert ("about 1.82× while the machine was slowed down" in answer) == bool(slow)
    assert ("40 % of the time" in answer) == bool(slow)
    assert len(notes(records, "was slowed down in 40 % of the cycles")) == bool(slow)


def test_a_state_that_slows_all_alike_needs_no_clause():
    answer = str(answers(measurements(slowed_rounds(12, 0.0)))[0])
    assert "1.49× as fast" in answer and "slowed down" not in answer


@pytest.mark.parametrize("slower", [1.0, 1.7])
def test_the_first_sentence_says_that_a_whole_session_was_slowed_down(slower):
    processor, seconds = next(iter(KNOWN.items()))
    records = [
        replace(
            record,
            hardware={**record.hardware, "processor": processor},
            turns={**record.turns, "reads": [seconds * slower] * 30},
        )
        for record in slowed_rounds(0, 0.0)
    ]
    answer = str(answers(measurements(records))[0])
    assert answer.startswith(
        "The machine was slowed down from outside during the measurement on cpu_1"
    ) == (slower > 1)
    assert "1.49× as fast" in answer


@pytest.mark.parametrize(("hours", "text"), [(0.05, "within 6 minutes"), (12, "in 2 sessions"),
                                             (1, None)])  # fmt: skip
def test_the_answer_says_what_its_intervals_hold_for(hours, text):
    """Three rounds: within minutes, two of them in half an hour, or in three sessions."""
    moments = [0, hours, 2 * hours] if hours != 12 else [0, 0.1, 12]
    records = [
        record
        for number, moment in enumerate(moments)
        for record in in_round(
            [make_record(rnn=rnn, repeat=number, started=BEGINNING + timedelta(hours=moment))
             for rnn in ("keras", "block")],
            [0.1, -0.1 - 0.001 * number],
        )
    ]  # fmt: skip
    assert [text in note for note in notes(records, "", ANSWER)] == ([True] if text else [])


@pytest.mark.parametrize(("spread", "count"), [(0.01, 0), (0.1, 1)])
def test_an_unsteady_machine_is_named_below_the_first_table(tmp_path, spread, count):
    seconds = [5.0, *(0.5 * math.exp(spread * sign) for sign in (1, -1) * 4)]
    records = [make_record(rnn=rnn, epoch_seconds=seconds) for rnn in ("keras", "block")]
    assert len(notes(records, "was not steady", LEAD)) == count
    write_report(Content(records, EXPERIMENT), tmp_path)
    for name in ("report.html", "report.md"):
        words = "was not steady: the seconds of the epochs of a run varied by 11"
        assert (tmp_path / name).read_text().count(words) == count


def test_runs_of_few_epochs_say_nothing_about_steadiness():
    records = [make_record(epoch_seconds=[0.5, 0.5, 0.9, 0.3])]
    assert not notes(records, "was not steady", LEAD) and not notes(records, "Warm-up")
