"""Nothing on a page shares a name: ids, files of figures, labels and the networks of a line."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rnnbench.records import timestamps
from rnnbench.records.overrides import Overrides
from rnnbench.records.record import Reason, Verdict
from rnnbench.report.answer import answers
from rnnbench.report.calls import calls_section
from rnnbench.report.content import Content
from rnnbench.report.labels import element_id, variant_labels
from rnnbench.report.notes import ratio_note, session_notes, uncertified_notes
from rnnbench.report.page import write_report
from rnnbench.report.sections import builds_section
from rnnbench.report.terminal import print_answers, print_comparison
from rnnbench.tables.comparison import versus
from tests.factory import make_record, replace
from tests.report.made_up import EXPERIMENT, measurements

TEXTS = st.text("a1 -_.=,~·/é", max_size=4)
OVERRIDES = st.dictionaries(
    st.sampled_from(["model.n", "model.a.n", "build.n"]), TEXTS | st.integers(-1, 1), max_size=2
).map(Overrides.of)
OVERRIDES_OF_A_MODEL = st.dictionaries(
    st.sampled_from(["model.shift", "model.a.shift"]),
    st.text("a1 -_.=,~·é²", max_size=3) | st.integers(-1, 1),
    max_size=2,
)
SEVERAL = st.lists(OVERRIDES_OF_A_MODEL, min_size=2, max_size=3, unique_by=Overrides.of)
PARTS = st.lists(TEXTS | OVERRIDES, min_size=2, max_size=2).map(tuple)
SAFE = re.compile("[A-Za-z0-9_.=,+~-]+")


def test_different_parts_have_different_ids() -> None:
    """All pairs of texts of at most two characters, and of overrides with such values."""
    characters = "a1-~,=+ "
    texts = ["", *characters, *map("".join, itertools.product(characters, repeat=2))]
    overrides = [Overrides.of({})]
    for key in ("model.n", "model.n-", "model.a.n"):
        overrides += [Overrides.of({key: text}) for text in texts]
    for of_first, of_second in itertools.product(["", "-", "=", "a"], repeat=2):
        overrides.append(Overrides.of({"model.n": of_first, "model.n-": of_second}))
    ids = [element_id(*parts) for parts in itertools.product(texts, repeat=2)]
    assert len(set(ids)) == len(ids)
    ids = [element_id(*parts) for parts in itertools.product(overrides, texts)]
    assert len(set(ids)) == len(ids)


@given(PARTS)
def test_an_id_is_a_safe_file_name(parts: tuple) -> None:
    assert SAFE.fullmatch(element_id("cell", *parts))


@given(st.sets(OVERRIDES, min_size=1, max_size=4))
def test_different_overrides_have_different_labels(variants: set[Overrides]) -> None:
    labels = variant_labels(variants)
    assert len(set(labels.values())) == len(variants)


def runs_of(*overrides: dict, **changes) -> list:
    return [
        make_record(rnn=rnn, repeat=repeat, overrides=own, epoch_seconds=seconds, **changes)
        for own in overrides
        for rnn, seconds in (("keras", 1.0), ("block", 0.8))
        for repeat in range(3)
    ]


@settings(max_examples=1, deadline=None)
@example([{"model.shift": -1}, {"model.shift": 1}, {"model.a.shift": "10²"}])
@given(SEVERAL)
def test_each_figure_is_a_file_and_each_id_is_used_once(values: list[dict]) -> None:
    check_ids(values)


@pytest.mark.slow_tier("many reports")
@settings(max_examples=4, deadline=None)
@given(SEVERAL)
def test_each_figure_of_many_reports_is_a_file_and_each_id_is_used_once(values: list[dict]) -> None:
    check_ids(values)


def check_ids(values: list[dict]) -> None:
    records = [
        # Of these values, some have the same name; a plan refuses them or gives one an alias.
        replace(record, name=f"{number}-{record.run.choices['rnn']}-s0-r{record.run.repeat}")
        for number, overrides in enumerate(values)
        for record in runs_of(overrides)
    ]
    content = Content(records, EXPERIMENT)
    with tempfile.TemporaryDirectory() as name:
        write_report(content, Path(name))
        assert len(list(Path(name).glob("figures/*.svg"))) == len(content.figures) > 4
        page = (Path(name) / "report.html").read_text()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert [each for each, number in Counter(ids).items() if number > 1] == []


def test_a_line_of_latencies_is_one_network() -> None:
    records = [
        replace(
            record,
            phases=tuple(
                replace(phase, facts={**phase.facts, "calls": [0.1, 0.1, 0.1]})
                if phase.name == "predict"
                else phase
                for phase in record.phases
            ),
        )
        for record in runs_of(
            *(
                {"model.units": units, "model.batch": batch}
                for units in (64, 512)
                for batch in (1, 32)
            )
        )
    ]
    figures = calls_section(measurements(records)).figures
    assert [figure.title.partition(" by batch on ")[2] for figure in figures] == [
        "cpu_1, units=64", "cpu_1, units=512",
    ]  # fmt: skip
    assert len({figure.id for figure in figures}) == 2


def test_a_certificate_note_names_the_network_without_one() -> None:
    tables = measurements([*runs_of({}, model="a"), *runs_of({}, model="b")])
    certified = tables.time.copy()
    certified.loc[certified["model"] == "a", "equal"] = "certified"
    (note,) = uncertified_notes(certified)
    assert str(note).startswith("Not certified: `block` (for b).")
    (note,) = uncertified_notes(tables.time)
    assert str(note).startswith("Not certified: `block`. ")


def test_the_text_on_builds_names_each_reference() -> None:
    pairs = {"a": ("tf_2_21", "tf_1_15"), "b": ("tf_1_2", "torch")}
    records = [
        make_record(model=model, build=build, repeat=repeat, epoch_seconds=1 + 0.01 * repeat)
        for model, builds in pairs.items()
        for build in builds
        for repeat in range(3)
    ]
    text = builds_section(measurements(records)).paragraphs[0]
    assert "relative to the build `tf_1_15` (a) or `tf_1_2` (b) on the same device" in text
    text = builds_section(measurements(records[:6])).paragraphs[0]
    assert "relative to the build `tf_1_15` on the same device" in text


def test_the_base_of_a_ratio_is_a_configuration_that_exists() -> None:
    records = [
        make_record(
            rnn="keras", device=device, repeat=repeat, epoch_seconds=seconds * share,
            overrides={"rnn.options.implementation": mode},
        )
        for mode, seconds in ((1, 1.0), (2, 0.8))
        for device, share in (("cpu_1", 1.0), ("cpu_2", 0.5))
        for repeat in range(4)
    ]  # fmt: skip
    (answer,) = answers(measurements(records, {"device": "cpu_1"}))
    assert "2.00 times as fast as `keras implementation=2, cpu_1`" in str(answer)


def test_names_with_brackets_are_printed_as_they_are(capsys) -> None:
    table = versus(measurements(runs_of({})).measured, ["keras"], ["block"])
    named = table.assign(a="keras [/relu]", b="block [red]")
    print_answers(named)
    told = capsys.readouterr().out
    print_comparison(pd.concat([named] * 5), ["keras [/relu]", "block [red]"])
    for out in (told, capsys.readouterr().out):
        assert "keras [/relu]" in out and "block [red]" in out


def test_a_reason_with_a_semicolon_is_one_reason() -> None:
    why = "NaN in the loss (epochs 2; 3)"
    void = Verdict("void", (Reason("x", why, "look"),))
    records = [*runs_of({}), *(make_record(rnn="cell", repeat=r, verdict=void) for r in range(3))]
    (answer,) = answers(measurements(records))
    assert why in str(answer)


@pytest.mark.parametrize(
    ("count", "text"), [(9, "about 0.45 would"), (40, "about 2 would"), (1990, "about 100 would")]
)
def test_the_number_of_chance_differences_has_no_exponent(count: int, text: str) -> None:
    assert text in ratio_note(count)


def test_a_session_lasts_until_its_last_run_has_ended() -> None:
    records = runs_of({})
    tables = measurements(records)
    first = min(record.started for record in records)
    last = timestamps.read(first) + timedelta(hours=2, minutes=46)
    ends = {record.key: timestamps.written(last) for record in records}
    (note,) = session_notes(tables.run_values, ends)
    assert note.startswith("Measured within 2 h 46 min: ")
