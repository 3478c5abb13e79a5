"""The files of a report: complete, self-contained, with void and suspect runs marked; the labels of
rows, and the notes below tables."""

from __future__ import annotations

import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from datetime import timedelta
from html import unescape

import pandas as pd
import pytest
import yaml

from rnnbench.axes import NAMES
from rnnbench.records.overrides import Overrides
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.answer import answers
from rnnbench.report.content import Content
from rnnbench.report.figures import to_pdf
from rnnbench.report.labels import variant_labels
from rnnbench.report.notes import answer_notes, disturbance_notes, optimizer_notes
from rnnbench.report.page import write_report
from rnnbench.report.sections import builds_section
from rnnbench.tables.runs import WHOLE_OF_EPOCHS, WHOLE_OF_RUNS
from rnnworker.processors import KNOWN
from tests.conftest import ROOT
from tests.factory import BEGINNING, in_round, make_record, make_runs, replace
from tests.report.made_up import EXPERIMENT, MISSING, QUICK, measurements, quick


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    paths = write_report(Content(quick(), QUICK, missing=MISSING), out)
    return out, paths


def text_of(folder, records, experiment=EXPERIMENT, **content) -> str:
    """The page of a report that is written into `folder`."""
    write_report(Content(records, experiment, **content), folder)
    return (folder / "report.html").read_text()


def pairs(**changes) -> list[Record]:
    return [make_record(rnn=rnn, **changes) for rnn in ("keras", "block")]


def notes(records: list[Record], text: str) -> list[str]:
    """The notes with this text below the answer."""
    return [note for note in answer_notes(measurements(records)) if text in note]


def test_a_disturbed_round_without_a_complete_cycle_enters_no_share() -> None:
    """As after a run that failed early, while others used the cores."""
    incomplete = [
        replace(record, turns={**record.turns, "full": [False] * 9})
        for record in in_round(pairs(), [0.0, 0.1], disturbed=range(9))
    ]
    assert list(disturbance_notes(incomplete)) == []
    complete = in_round(pairs(seed=1), [0.0, 0.1], disturbed=(0, 1, 2), number=1)
    note, *_ = disturbance_notes([*incomplete, *complete])
    assert note.startswith("Other processes used the cores in 33 % of the cycles.")


@pytest.fixture(scope="module")
def html(report):
    return (report[0] / "report.html").read_text()


def test_all_files_are_there(report):
    out, paths = report
    assert paths[0] == out / "report.html" and all(path.stat().st_size for path in paths)
    tables = {path.name: pd.read_csv(path) for path in paths if path.suffix == ".csv"}
    assert {name: len(table) for name, table in tables.items()} == {
        "accuracy.csv": 8, "time.csv": 8, "runs.csv": 23, "epochs.csv": 23 * 8, "cost.csv": 2,
        "target.csv": 8, "efficiency.csv": 8, "calls.csv": 16,
        # Two seeds, one build, up to two threads, no meter of energy, no metrics but accuracy.
        "metrics.csv": 0,
        "alike.csv": 0, "builds.csv": 0, "threads.csv": 0, "energy.csv": 0, "turns.csv": 0,
    }  # fmt: skip
    for path in paths:
        if path.suffix == ".svg":
            ElementTree.parse(path)


def test_runs_and_epochs_can_be_grouped_by_axis_and_plotted(report, monkeypatch):
    """With the lines of docs/experiments.md."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    out, _ = report
    page = (ROOT / "docs/experiments.md").read_text()
    lines = re.search(r"```python\n(import pandas.*?)```", page, re.S)[1]
    found = {}
    exec(lines.replace("reports/quick", str(out)), found)
    runs = found["runs"]
    epochs = pd.read_csv(out / "tables/epochs.csv")
    for table in (runs, epochs):
        assert {*NAMES, "machine", "seed", "repeat", "alias"} <= set(table)
        assert table.groupby(["rnn", "device"]).ngroups > 2
    # Each axis has its choice, although a phase is called `build` too. Integers are integers.
    choices = {record.key: record.run.choices for record in quick()}
    for table, whole in ((runs, WHOLE_OF_RUNS), (epochs, WHOLE_OF_EPOCHS)):
        for axis in NAMES:
            for record, choice in zip(table["record"], table[axis].fillna(""), strict=True):
                assert choice == choices[record].get(axis, ""), axis
        assert {str(table[name].dtype) for name in whole} == {"int64"}
    # One name has one meaning in both, and in MLflow.
    counted = epochs[epochs["epoch"] > 1].groupby("record")["epoch_seconds"].median()
    medians = runs.set_index("record")["median_epoch_seconds"]
    assert medians.to_dict() == pytest.approx(counted[medians.index].to_dict())


def test_the_page_is_self_contained_and_every_table_can_be_copied(html):
    assert html.count("<script>") == html.count("<script") == 1 and "@import" not in html
    assert set(re.findall(r'(?:src|href)="([^"#][^"]*)"', html)) <= {"data:,"}
    copied = re.findall(r'data-markdown="([^"]+)"', html)
    assert len(copied) > 5 and all("| :--" in table for table in copied)


def test_figures_are_pdf_too_if_asked(tmp_path):
    content = Content(pairs(), EXPERIMENT)
    write_report(content, tmp_path, pdf=True)
    for figure in content.figures:
        file = tmp_path / f"figures/{figure.id}.pdf"
        assert file.read_bytes().startswith(b"%PDF-")
    listed = json.loads((tmp_path / "card.json").read_text())["files"]
    assert len([name for name in listed if name.endswith(".pdf")]) == len(content.figures) > 0
    write_report(content, tmp_path)
    assert not list(tmp_path.glob("figures/*.pdf")), "they would look current"
    drawn = to_pdf(next(ROOT.glob("reports/example/figures/speedup-*.svg")).read_text())
    assert b"/BaseFont" in drawn and len(drawn) > 10_000, "texts are text"


def test_the_page_has_the_configuration_of_the_runs(tmp_path):
    records = pairs(overrides={"model.units": 32}) + pairs(overrides={"model.units": 64}, repeat=1)
    page = unescape(text_of(tmp_path, records))
    text = page.partition("Configuration of the runs")[2].partition("<pre")[2]
    text = text.partition(">")[2].partition("</pre>")[0]
    common = yaml.safe_load(text)
    config = records[0].run.config
    assert common["cell"] == config["cell"] and common["device"]["name"] == "cpu_1"
    assert "units" not in common["model"] and "seed" not in common and "repeat" not in common
    differing = text.partition("# The runs differ in:\n")[2].splitlines()
    assert "# model.units: 32, 64" in differing
    assert any(line.startswith("# rnn") and "block" in line for line in differing)


def test_the_page_has_metadata_for_link_previews(report, html):
    (description,) = re.findall(r'property="og:description" content="([^"]+)"', html)
    assert "as fast as Keras&#39;s own layer (" in description and "`" not in description
    (picture,) = re.findall(r'property="og:image" content="([^"]+)"', html)
    assert (report[0] / picture).read_bytes().startswith(b"\x89PNG")


def test_narrow_screens_get_one_device_at_a_time(html):
    narrow = re.findall(r'<div class="scroll phone .*?</table>', html, re.DOTALL)
    has_cpu_1 = ["cpu_1" in table for table in narrow if 'id="time-' in table]
    assert has_cpu_1 == [True, False]


def test_ids_are_unique_references_exist_and_headings_are_in_order(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:aria-labelledby|headers)="([^"]+)"', html)
    references += re.findall(r'href="#([^"]+)"', html)
    assert set(" ".join(references).split()) <= set(ids)
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_first_screen_says_in_words_where_and_with_what_it_was_measured():
    hardware = {"cpu": "AMD EPYC", "cores": 4, "threads_per_core": 2, "virtual": True,
                "processor": "AuthenticAMD 25 17", "flags": ["avx2", "avx512f"]}  # fmt: skip
    environment = {"tensorflow": "2.21.0", "keras": "3.15.1"}
    records = pairs(hardware=hardware, environment=environment, device="cpu_2")
    config = records[1].run.config
    config = {**config, "model": {**config["model"], "batch": 16}}
    records[1] = replace(records[1], run=replace(records[1].run, config=config))
    assert Content(records, EXPERIMENT).conditions == {
        "Machine": "AMD EPYC (family 25, model 17, AVX-512), 2 cores, virtual machine on a host "
        "that may be shared",
        "Software": "TensorFlow 2.21.0, Keras 3.15.1",
        "Devices": "cpu_2: 2 threads",
        "Training": "units 64, batch 32 or 16, epochs 5, loss sparse_categorical_crossentropy, "
        "optimizer adam, learning_rate 0.001, training samples 1438",
    }


def test_models_without_an_accuracy_have_their_losses(tmp_path):
    records = [
        replace(record, epochs=[replace(each, acc=None, val_acc=None) for each in record.epochs])
        for record in pairs(verdict="suspect")
    ]
    text = text_of(tmp_path, records)
    assert "Loss at the last epoch" in text and "validation loss" in text
    assert "Accuracy at the last epoch" not in text and "– †" not in text
    assert "From the same seeds, the losses of the runs are identical. No certificate" in text


def test_a_note_links_to_a_section_only_if_it_is_there(html, tmp_path):
    without = text_of(tmp_path, pairs())
    assert 'id="ran"' in html and '<a href="#ran">Not certified</a>: ' in html
    assert 'id="ran"' not in without and ">Not certified: <code>block" in without


def test_void_results_are_shown_only_under_reliability_and_in_raw_epochs(tmp_path):
    void = make_record(rnn="block", epoch_seconds=77.125, acc=0.12345, verdict="void")
    html = text_of(tmp_path, [*quick(), void])
    before, reliability = html.split('<details class="part" id="trust"')
    shown = re.compile(r"(?<![\d.])(77\.1|0\.123)")  # not as part of a figure's coordinate
    assert not shown.search(before) and "77.1" in reliability
    assert "the loss is not finite from epoch 2." in reliability
    assert "lower the rate." in reliability


def test_the_markdown_has_no_stretch_of_empty_lines(report):
    assert "\n\n\n" not in (report[0] / "report.md").read_text()


def test_a_suspect_run_is_marked(report, html):
    markdown = (report[0] / "report.md").read_text()
    row = next(line for line in markdown.splitlines() if line.startswith("| cell |"))
    assert row.count("†") == 2  # its seconds and its speed-up on cpu_2, nothing on cpu_1
    assert "cell †" in html


def test_missing_and_skipped_runs_are_listed(report, html):
    for text in (html, (report[0] / "report.md").read_text()):
        assert MISSING[0] in text and "cuDNN runs on NVIDIA GPUs only" in text
        assert "This page shows 23 ratios" in text and "about 1.2 would appear to differ" in text


def test_text_from_users_is_escaped(tmp_path):
    evil = Experiment("x", "<script>alert(1)</script>", "a | <b>", {"rnn": "keras"})
    record = make_record(hardware={"cpu": "<img src=x>"}, facts={"kernel": {"found": ["<i>|"]}})
    page = text_of(tmp_path, [record], evil, faults=["<u>"])
    assert not re.search(r"<(img|i|u|b)\b", page) and page.count("<script") == 1
    assert "<img" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    "records", [[], [make_record(verdict="void", epochs=0, phases=())], [make_record(epochs=1)]]
)
def test_few_or_no_runs_still_give_a_page(tmp_path, records):
    assert "b: broken." in text_of(tmp_path, records, missing=["a"], faults=["b: broken."])


@pytest.mark.parametrize(("cycles", "starts"), [(9, []), (3, ["6 runs of digits_rnn shared"])])
def test_ratios_of_runs_with_too_few_turns_are_pointed_out(cycles, starts):
    records = []
    for number in range(3):
        records += in_round(pairs(repeat=number), [0.1, -0.1], cycles, number=number)
    assert [note[:27] for note in notes(records, "too few undisturbed")] == starts


@pytest.mark.parametrize(
    ("cycles", "disturbed", "text"),
    [
        (9, (), None),
        (20, (2, 5), "10 % of the cycles. Ratios and seconds leave these cycles out"),
        (9, range(6), "67 % of the cycles. Ratios and seconds leave 0 of these 6 cycles out"),
    ],
)
def test_disturbed_cycles_are_pointed_out(cycles, disturbed, text):
    records = in_round(pairs(), [0.1, -0.1], cycles, disturbed)
    found = [note for note in disturbance_notes(records) if "Other processes" in note]
    assert [text in note for note in found] == ([True] if text else [])


def slowed_rounds(slow: int, unequal: float, first: int = 0, **changes) -> list[Record]:
    """Three rounds of 30 cycles, the last of which are twice as long, and in which block is faster
    by `unequal` as well. `first`: the number of the first round."""
    records = []
    for number in range(3):
        members = pairs(repeat=number, **changes)
        for record in in_round(members, [0.0, -0.4], 30, number=first + number):
            is_block = record.run.choices["rnn"] == "block"
            base, slower = (math.exp(-log * is_block) for log in (0.4, unequal))
            seconds = [
                0.01 * base * (1 + 0.001 * (cycle % 4)) * (2 * slower if cycle >= 30 - slow else 1)
                for cycle in range(30)
            ]
            records.append(replace(record, turns={**record.turns, "seconds": seconds}))
    return records


@pytest.mark.parametrize(("slow", "unequal"), [(0, 0.2), (12, 0.2), (12, 0.0)])
def test_the_answer_is_that_of_the_undisturbed_machine(slow, unequal):
    records = slowed_rounds(slow, unequal)
    answer = str(answers(measurements(records))[0])
    assert "1.49 times as fast" in answer
    assert "slowed down" not in answer
    found = [note for note in disturbance_notes(records) if "slowed down in 40 %" in note]
    assert len(found) == bool(slow)


def slowed_session(slower: float, is_known: bool) -> list[Record]:
    """Rounds of two networks whose reads all take so many times as long as those of their
    processor, if it is known how long reads of so many bytes take."""
    (processor, size), seconds = next(iter(KNOWN.items()))
    return [
        replace(
            record,
            hardware={**record.hardware, "processor": processor},
            facts={**record.facts, "reads_bytes": size if is_known else size // 2},
            turns={**record.turns, "reads": [seconds * slower] * 30},
        )
        for record in (*slowed_rounds(0, 0.0), *slowed_rounds(0, 0.0, 3, cell="gru"))
    ]


@pytest.mark.parametrize(("slower", "is_known"), [(1.0, True), (1.7, True), (1.7, False)])
def test_a_note_below_the_answer_says_that_a_whole_session_was_slowed_down(slower, is_known):
    records = slowed_session(slower, is_known)
    for answer in answers(measurements(records)):
        assert "1.49 times as fast" in str(answer)
        assert "slowed" not in str(answer)
    found = notes(records, "Other work slowed the machine down during most runs on one thread")
    assert len(found) == (slower > 1 and is_known)


def test_an_answer_without_a_comparison_does_not_say_that_the_machine_was_slowed_down() -> None:
    """It would say that nothing else was run while the machine was slowed down."""
    records = [
        replace(record, run=replace(record.run, choices={**record.run.choices, "build": rnn}))
        for record in slowed_session(1.7, is_known=True)
        for rnn in (record.run.choices["rnn"],)
    ]
    m = measurements(records)
    assert all(contest.is_slowed for contest in m.contests)
    for answer in answers(m):
        assert ": on one thread, only `" in str(answer)
        assert "slowed down" not in str(answer)


@pytest.mark.parametrize(
    ("hours", "text"),
    [((0, 0.05, 0.1), "within 7 minutes"), ((0, 0.1, 12), "in 2 sessions"), ((0, 1, 2), None)],
)
def test_the_answer_says_what_its_intervals_hold_for(hours, text):
    """Three rounds: within minutes, two of them in half an hour, or in three sessions."""
    records = []
    for number, moment in enumerate(hours):
        members = pairs(repeat=number, started=BEGINNING + timedelta(hours=moment))
        records += in_round(members, [0.1, -0.1 - 0.001 * number])
    (found,) = notes(records, "In brackets: 95 % confidence intervals.")
    assert f"Measured {text}" in found if text else "Measured" not in found


def test_builds_are_rows_of_one_table_by_speed_share_a_figure_and_link_to_their_own_runs():
    seconds = {"old": 0.9, "current": 0.5, "fresh": 0.4}
    records = [
        run for build, level in seconds.items() for run in make_runs({"keras": level}, build=build)
    ]
    page = Content(records, Experiment("builds", "Builds", "", {"build": "current"}))
    (view,), (answer,) = page.lead_views, page.answers
    (figure,) = [figure for figure in page.figures if figure.kind == "time"]
    sections = {section.id: section for section in page.sections}
    assert [row.head for row in view.rows] == ["fresh", "current", "old"]
    assert {row.group for row in view.rows} == {""}
    assert [row.cells[0] for row in view.rows] == ["1.25×", "1.00×", "0.56×"]
    assert [row.head for row in sections["learnt"].views[0].rows] == ["fresh", "current", "old"]
    assert all(build in figure.svg for build in seconds)
    links = [row.links[0] for row in view.rows]
    assert len(set(links)) == 3
    assert set(links) == {cell.anchor for cell in sections["origin"].configurations}
    assert "(fresh)" not in str(answer) and "(current)" not in str(answer)


def test_groups_are_named_by_the_axes_in_which_they_differ() -> None:
    found = Content([make_record(cell=cell) for cell in ("lstm", "gru")], EXPERIMENT)
    assert {row.group for row in found.lead_views[0].rows} == {"lstm", "gru"}


@pytest.mark.parametrize(
    ("variants", "labels"),
    [
        ([], []),
        (["epochs=2"], ["epochs=2"]),
        (["epochs=2, batch=8", "epochs=2, batch=16"], ["batch=8", "batch=16"]),
        (["epochs=2, batch=8", "epochs=2"], ["batch=8", "default batch"]),
        (["", "units=32"], ["default units", "units=32"]),
        (["batch=8, val=${model.batch}", "val=${model.batch}"], ["batch=8", "default batch"]),
        # Without what follows from other keys, these would have one label.
        (["a=${b}", "a=${c}"], ["a=${b}", "a=${c}"]),
        (["sizes=[1,2], x=1", "sizes=[1,3], x=1"], ["sizes=[1,2]", "sizes=[1,3]"]),
        (["x=1, y=1", "x=1, y=2", "x=2, y=2"], ["x=1, y=1", "x=1, y=2", "x=2, y=2"]),
    ],
)
def test_variants(variants: list[str], labels: list[str]) -> None:
    written = [re.findall(r"(\w+)=(\S+?)(?:, |$)", variant) for variant in variants]
    overrides = [Overrides.of({f"model.{key}": value for key, value in each}) for each in written]
    assert list(map(str, overrides)) == [", ".join(sorted(v.split(", "))) for v in variants]
    assert list(variant_labels(overrides).values()) == labels


GENERATIONS = (("tf_2_21", "keras3_tensorflow"), ("keras3_torch", "keras3_torch"))


def trained(build: str, framework: str, optimizer: str, **model):
    record = make_record(build=build)
    config = record.run.config
    model = {**config["model"], "optimizer": {"name": optimizer}, **model}
    build_config = {"name": build, "framework": framework}
    return replace(record, config={**config, "model": model, "build": build_config})


def texts(records) -> list[str]:
    return [note.partition(". Their losses")[0] for note in optimizer_notes(records)]


@pytest.mark.parametrize("change", [{"model": None}, {"build": None}])
def test_a_section_that_is_null_is_like_one_without_keys(change: dict) -> None:
    record = trained(*GENERATIONS[0], "rmsprop", name="m")
    assert texts([replace(record, config={**record.run.config, **change})]) == []


def test_rmsprop_differs_between_generations_of_keras() -> None:
    old, new = ("tf_1_15", "keras2_tensorflow1"), ("tf_2_15", "keras2_tensorflow2")
    made = [trained(*build, "rmsprop", name="m") for build in (old, old, new, GENERATIONS[1])]
    made.append(trained(*new, "rmsprop", name="other"))
    assert texts(made) == [
        "`m` is trained with RMSprop, which adds epsilon to the square root in `tf_1_15` and "
        "inside it in `tf_2_15`, `keras3_torch`"
    ]
    assert texts(made[2:]) == []


def test_an_embedding_differs_in_keras_3_on_tensorflow() -> None:
    records = [trained(*build, "adam", name="m", embedding=8) for build in GENERATIONS]
    plain = [trained(*build, "adam", name="m") for build in GENERATIONS]
    assert texts(records) == [
        "`m` has an embedding: if a batch contains a row of it several times, the optimizer adds "
        "the squares of the row's gradients in `tf_2_21` and squares their sum in `keras3_torch`"
    ]
    assert texts(plain) == []
    assert texts([trained(*build, "sgd", name="m", embedding=8) for build in GENERATIONS]) == []
    # The section of the builds states it.
    paragraphs = builds_section(measurements(records, {})).paragraphs
    assert "in `tf_2_21` and squares their sum in `keras3_torch`." in paragraphs[-1]
    assert not any("embedding" in t for t in builds_section(measurements(plain, {})).paragraphs)
