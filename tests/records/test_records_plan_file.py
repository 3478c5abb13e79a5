"""The files of a plan are read, and one that cannot be read says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import RecordError
from rnnbench.records.plan_file import (
    read_batches,
    read_experiment,
    read_heads,
    read_rounds,
    read_runs,
)
from rnnbench.records.store import write_json
from tests.factory import make_record, replace


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Two rounds whose runs are not next to each other, and an empty line."""
    runs = [
        replace(make_record(rnn=rnn, repeat=repeat).run, round=f"r{repeat}")
        for rnn in ("keras", "block")
        for repeat in (0, 1)
    ]
    file = tmp_path / "plan.jsonl"
    file.write_bytes(b"\n".join(run.line() for run in runs))
    return file


def test_a_round_has_its_runs_in_their_order(plan: Path) -> None:
    every = read_runs(plan)
    assert [head.name for head in read_heads(plan)] == [run.name for run in every]
    assert [run.repeat for run in every] == [0, 1, 0, 1]
    first, second = read_rounds(plan, ["r0", "r1"])
    assert first == (0, 2, [every[0], every[2]])
    assert second == (1, 2, [every[1], every[3]]) == read_rounds(plan, ["r1"])[0]
    assert read_batches(plan) == [["r0", "r1"]]


def test_a_round_that_is_not_planned_is_an_error(plan: Path) -> None:
    with pytest.raises(RecordError, match="has no round r2") as caught:
        read_rounds(plan, ["r0", "r2"])
    assert caught.value.where == str(plan) and "Snakemake" in caught.value.remedy


@pytest.mark.parametrize("content", [None, b"[]\n", b"{\n", b"{}\n", b"\xff\n"])
def test_a_file_that_is_no_plan_is_named_with_what_to_do(plan: Path, content: bytes | None) -> None:
    if content is None:
        plan.unlink()
    else:
        plan.write_bytes(content)
    for read in (read_runs, read_heads):
        with pytest.raises(RecordError, match="cannot be read as a plan") as caught:
            read(plan)
        assert caught.value.where == str(plan) and "snakemake --cores all" in caught.value.remedy
        assert ("No such file" in str(caught.value)) == (content is None)


def test_an_experiment_of_another_form_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "experiment.json"
    facts = {"name": "n", "title": "t", "about": "a", "reference": {"rnn": "keras"}}
    write_json(file, {**facts, "peak_tflops": {"cpu_1": {"float32": 0.1}}})
    assert read_experiment(file).peak_tflops == {"cpu_1": {"float32": 0.1}}
    write_json(file, {**facts, "peak_tflops": {"cpu_1": {"float32": 0}}})
    with pytest.raises(RecordError, match="does not describe an experiment") as caught:
        read_experiment(file)
    assert caught.value.where == str(file) and "run snakemake again" in caught.value.remedy
