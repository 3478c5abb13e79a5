"""Rounds of runs with the fake framework: real workers that take turns."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from rnnbench.commands.rules import certificate_summary
from rnnbench.errors import RunError
from rnnbench.records.record import Record
from rnnbench.records.rounds import read_records
from rnnbench.records.store import RETRIED, Place, read_record, write_json
from rnnbench.running import attempt
from rnnbench.running import round as measuring
from rnnbench.running.round import measure
from rnnbench.running.worker import revision
from rnnbench.sources.certificates import certificate_of
from rnnbench.tables.effects import effects_of
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy
from rnnbench.tables.time import time as time_table
from rnnworker import cohorts, members
from rnnworker.cohorts import GUESS_BYTES
from rnnworker.rounds import Share
from tests.factory import as_run, phase_of, planned_certificate, replace
from tests.running.alone import outside, results, slept_effects, slept_in_turns
from tests.running.test_running_train import planned

EPOCH = 0.1  # seconds, of 20 steps


def run(rnn: str, repeat: int = 0, epochs: int = 4, **fake: Any) -> dict[str, Any]:
    """A line of the plan: an implementation that takes `EPOCH` seconds per epoch."""
    fake = {"epoch_seconds": EPOCH, **fake}
    line = planned(f"fake-lstm-{rnn}-cpu_1-fake-s0-r{repeat}", **fake)
    line["choices"] = {
        "model": "fake", "cell": "lstm", "rnn": rnn, "device": "cpu_1", "build": "fake",
    }  # fmt: skip
    line.update(repeat=repeat, block=repeat, digest=(rnn[0] * 63) + str(repeat))
    line["config"]["model"]["epochs"] = epochs
    line["config"]["repeat"] = repeat
    return line


def measure_round(place: Place, *lines: Mapping[str, Any], reference="keras") -> dict[str, Record]:
    """Measures the lines in a round. Returns implementation → record."""
    name = next((line["name"] for line in lines if line["choices"]["rnn"] == reference), None)
    runs = [as_run(line) for line in lines]
    records = measure(runs, place, label="[1/1]", reference=name)
    return {record.run.choices["rnn"]: record for record in records.values()}


def in_a_quiet_hour(record: Record) -> Record:
    """The record of the run if neither its steps nor the random reads had ever been slowed."""
    steps = record.turns["steps"]
    quiet = {
        "reads": [1.0] * len(steps),
        "others": [0.0] * len(steps),
        "seconds": list(map(float, steps)),
    }
    return replace(record, turns={**record.turns, **quiet})


def test_members_in_turns_have_the_known_ratios(place: Place) -> None:
    factors = {"keras": 1.0, "cell": 1.1, "same": 1.0, "slow": 2.0}
    lines = [run(rnn, epochs=8, epoch_seconds=f * EPOCH) for rnn, f in factors.items()]
    records = measure_round(place, *lines)
    assert {record.verdict.status for record in records.values()} <= {"clean", "suspect"}
    assert len({record.round.id for record in records.values()}) == 1
    found = effects_of(records.values())
    slept = slept_effects(records.values())
    for rnn in ("cell", "same", "slow"):
        effect = found[records[rnn].key].log - found[records["keras"].key].log
        assert outside(effect, slept[rnn] - slept["keras"], math.log(factors[rnn])) < 0.02
        assert not records[rnn].round.companion
    for record in records.values():
        assert record.turns["turn"] and len(record.epochs) == 8
        assert all(seconds > 0 for seconds in record.turns["reads"])
        excess = [seconds / slept - 1 for seconds, slept in slept_in_turns(record)]
        assert min(excess) >= 0 and sorted(excess)[len(excess) // 4] < 0.01
        waited = phase_of(record, "train").details.waited
        assert waited > EPOCH, "its phase includes the others' turns"
        duration = record.phases[-1].end - record.phases[0].start
        assert record.measured.wall_seconds < duration, "its share of the cohort's duration"
        assert record.measured.revision == revision()
    # 0.6 to 0.8 if the others' turns counted. A busy host may stop one worker between epochs.
    closures = sorted(abs(record.measured.closure) for record in records.values())
    assert closures[-2] < 0.5
    taken = sorted(
        (start, start + seconds)
        for record in records.values()
        for start, seconds in zip(record.turns["start"], record.turns["seconds"], strict=True)
    )
    assert all(end <= start for (_, end), (start, _) in pairwise(taken))
    # Each cycle has the same steps of each member. The first turn is short, and the last one ends
    # with the training.
    steps = [record.turns["steps"][1:-1] for record in records.values()]
    assert len({*map(tuple, steps)}) == 1 and len(set(steps[0])) == 1 and len(steps[0]) > 3
    for record in records.values():
        assert record.turns["cycle"] == list(range(len(steps[0]) + 2))


def test_members_train_again_until_turns_are_the_share_of_the_round(place: Place) -> None:
    lines = [run("keras"), run("slow", epoch_seconds=1.5 * EPOCH)]
    runs = [as_run(line) for line in lines]
    share = Share(of_round=0.97, most_seconds=8)
    records = measure(runs, place, label="[1/1]", reference=runs[0].name, share=share)
    further = {phase_of(each, "train_again").facts["trainings"] for each in records.values()}
    (of_all,) = further
    assert of_all >= 1

    by_rnn = {record.run.choices["rnn"]: record for record in records.values()}
    effects = effects_of(by_rnn.values())
    for record in by_rnn.values():
        assert [epoch.epoch for epoch in record.epochs] == [1, 2, 3, 4], "of the first training"
        assert abs(record.measured.closure) < 0.5
        trained = phase_of(record, "train")
        starts = record.turns["start"]
        again = sum(start > trained.end for start in starts)
        assert again >= of_all * (len(starts) - again) / 2
        assert record.turns["cycle"] == sorted(set(record.turns["cycle"])), "one turn in each"
        assert record.verdict.status != "void", record.verdict
    ratio = effects[by_rnn["slow"].key].log - effects[by_rnn["keras"].key].log
    slept = slept_effects(by_rnn.values())
    assert outside(ratio, math.log(1.5), slept["slow"] - slept["keras"]) < 0.02

    # An epoch is as long as its own turns say: what later turns are slower by is known.
    quiet = []
    for record in map(in_a_quiet_hour, by_rnn.values()):
        end = phase_of(record, "train").end
        seconds = []
        for start, own in zip(record.turns["start"], record.turns["seconds"], strict=True):
            seconds.append(own if start <= end else 1.05 * own)
        epochs = [replace(epoch, seconds=1.0) for epoch in record.epochs]
        turns = {**record.turns, "seconds": seconds}
        quiet.append(replace(record, turns=turns, epochs=epochs))
    found = [math.exp(effect.log) for effect in effects_of(quiet).values()]
    steps = quiet[0].turns["steps"]
    of_first = sum(steps[: len(starts) - again])
    assert found == pytest.approx(
        [(of_first + 1.05 * (sum(steps) - of_first)) / sum(steps)] * 2, 0.01
    )


def test_the_failures_of_members_do_not_affect_the_others(place: Place, capsys) -> None:
    faults = {"not_finite": "loss_not_finite", "raise": "exception", "crash": "died"}
    faults |= {"hang": "over_limit", "memory": "out_of_memory"}
    bad = [run(fault, fault=fault, fault_epoch=3) for fault in faults]
    for line in bad:
        line["config"]["limits"] = {"default": 20, "train": 5.0}
    records = measure_round(place, run("keras"), *bad, run("block"))
    for fault, code in faults.items():
        assert records[fault].verdict.status == "void"
        assert records[fault].verdict.reasons[0].code == code
    for rnn in ("keras", "block"):
        assert records[rnn].verdict.status != "void"
        assert len(records[rnn].epochs) == 4
    quiet = [in_a_quiet_hour(records[rnn]) for rnn in ("keras", "block")]
    assert effects_of(quiet).keys() == {record.key for record in quiet}
    # What ran out of memory next to the others is measured again on its own.
    assert capsys.readouterr().err.count("ran out of memory; retrying it on its own") == 1
    for fault in faults:
        own = records[fault].round.members == (records[fault].name,)
        assert own == (fault == "memory")


BOOM = "ValueError: /home/me/mine.py, line 3: boom"


@pytest.mark.parametrize(
    ("section", "key", "trained"),
    [
        (None, "", False),
        ("measure", "uncertified", True),
        ("build", "as_published", True),
        ("identity", "an older certificate", True),
    ],
)
def test_a_run_whose_certificate_failed_is_not_trained(
    place: Place, section: str | None, key: str, trained: bool, capsys
) -> None:
    lines = [run("mine"), run("block")]
    for line in lines:
        line["certificate"] = "fake-lstm-fake"
    lines[0]["config"]["rnn"]["implementation"] = "/home/me/mine.py"
    if section in lines[0]["config"]:
        lines[0]["config"][section][key] = True
    entries = {
        "mine": {"status": "failed", "why": BOOM, "function_why": BOOM},
        "block": {"status": "certified"},
    }
    made = {"schema": 3, "implementations": entries, "digest": key if section == "identity" else ""}
    write_json(place.folder / "certificates/fake-lstm-fake.json", made)
    write_json(place.folder / "certificates.json", {"fake-lstm-fake": planned_certificate("")})
    records = measure_round(place, *lines, reference="mine")
    told = capsys.readouterr().err
    assert told == "", "the line of a round is that of its command"
    assert len(records["block"].epochs) == 4
    assert bool(records["mine"].epochs) == trained
    if not trained:
        (reason,) = records["mine"].verdict.reasons
        assert (records["mine"].verdict.status, reason.code) == ("void", "not_certified")
        assert BOOM in reason.text and "correct /home/me/mine.py" in reason.remedy
        assert "results/here/selftest/certificates/work/fake-lstm-fake.log" in reason.remedy
        assert results(place, *lines)[lines[0]["name"]].is_valid(place.results, None)
    files = place.results.glob(f"records/*/{lines[0]['name']}/2*Z.json")
    assert len(list(files)) == 1, "it is no companion either"


@pytest.mark.parametrize(("data", "named"), [(None, "made by the model"), ("my.npz", "my.npz")])
def test_what_all_implementations_do_wrong_is_blamed_on_no_kernel(
    place: Place, data: str | None, named: str
) -> None:
    lines = [run("keras"), run("mine")]
    why = "ValueError: layer 'functional{}' expected shape=(None, 8, 8), found shape=(16, 12, 4)"
    entries = {}
    for line, name, number in zip(lines, ("keras", "mine"), ("", "_1"), strict=True):
        line["certificate"] = "fake-lstm-fake"
        line["config"]["rnn"]["implementation"] = f"/home/me/{name}.py"
        line["config"]["dataset"]["path"] = data
        fault = why.format(number)
        entries[name] = {"status": "failed", "why": fault, "function_why": fault}
    made = {"schema": 3, "implementations": entries, "digest": ""}
    write_json(place.folder / "certificates/fake-lstm-fake.json", made)
    files = {name: f"/home/me/{name}.py" for name in entries}
    planned = planned_certificate("", files)
    write_json(place.folder / "certificates.json", {"fake-lstm-fake": planned})
    reasons = {record.verdict.reasons for record in measure_round(place, *lines).values()}
    ((reason,),) = reasons
    assert reason.text.endswith(f"the certificate of every implementation failed: {why.format('')}")
    correct = f"correct the model (rnnworker.models.digits_rnn), the data ({named}) or"
    assert reason.remedy.startswith(f"{correct} the options;")
    certificate = certificate_of({**made, "key": "fake-lstm-fake"}, "here")
    first, second = certificate_summary(certificate, files)
    assert first == "certificate fake-lstm-fake: 2 failed"
    assert second.endswith(f"{why.format('')}. Fix: correct the model, the data or the options.")
    one_file = dict.fromkeys(entries, files["mine"])  # two of its options
    assert all("mine.py" in line for line in certificate_summary(certificate, one_file)[1:])
    entries["mine"]["function_why"] = "ValueError: boom"
    certificate = certificate_of({**made, "key": "fake-lstm-fake"}, "here")
    _, _, third = certificate_summary(certificate, files)
    assert "correct /home/me/mine.py" in third


def test_a_round_says_which_attempt_it_waits_for(place: Place, monkeypatch, capsys) -> None:
    held = attempt.held

    def after_another(folder, on_wait=lambda owner: None):
        on_wait("process 7")
        return held(folder)

    monkeypatch.setattr(attempt, "held", after_another)
    line = run("keras", epochs=1)
    measure_round(place, line)
    captured = capsys.readouterr()
    expected = f"[1/1] waiting for another attempt at {line['name']} (process 7)"
    assert expected in captured.out + captured.err


def test_only_the_killed_member_is_measured_again(place: Place, monkeypatch) -> None:
    lines = [run("keras"), run("cell"), run("killed")]
    supervise = measuring.supervise

    def killing(workers, *how):
        *others, victim = sorted(workers, key=lambda worker: "killed" in worker.name)
        return supervise([*others, victim._replace(on_event=kill_at_its_third_gate)], *how)

    def kill_at_its_third_gate(event):
        if event["event"] == "hello":
            seen.append(event["pid"])
        if event["event"] == "gate" and len(seen) < 4:
            seen.append(None)
            if len(seen) == 4:
                os.kill(seen[0], 9)

    seen: list = []
    monkeypatch.setattr(measuring, "supervise", killing)
    with pytest.raises(RunError, match="received an external SIGKILL in phase train") as raised:
        measure_round(place, *lines)
    assert raised.value.where == lines[2]["name"]
    assert "run the same command again" in str(raised.value)
    monkeypatch.setattr(measuring, "supervise", supervise)
    first = {path: path.read_bytes() for path in place.results.glob("records/*/*/2*Z.json")}
    assert len(first) == 2
    records = measure_round(place, *lines)
    assert set(records) == {"keras", "cell", "killed"}
    for path, content in first.items():
        assert path.read_bytes() == content
    # The reference was its companion and keeps its own record.
    assert records["killed"].round.members == (lines[0]["name"], lines[2]["name"])
    before = results(place, *lines)
    reference, _, killed = (before[line["name"]] for line in lines)
    (companion,) = killed.companions
    companion_record = read_record(place.results / companion)
    assert companion_record.name == lines[0]["name"] and companion_record.round.companion
    assert reference.record != companion
    all_records, faults = read_records(before.values(), place.results)
    assert len(all_records) == 4 and not faults
    # Once more: nothing is measured, and each run keeps its companion.
    monkeypatch.setattr(measuring, "supervise", None)
    assert measure_round(place, *lines) == records
    assert results(place, *lines) == before
    # A deleted companion is no longer named, so that nothing is missing forever.
    (place.results / companion).unlink()
    assert not killed.is_valid(place.results, None)
    assert measure_round(place, *lines) == records
    again = results(place, *lines)[lines[2]["name"]]
    assert again.is_valid(place.results, None) and not again.companions


def test_without_the_record_of_the_reference_the_others_are_measured_again_with_it(
    place: Place,
) -> None:
    """`rnnbench retry` has set it aside, or its worker was killed."""
    lines = [run("keras"), run("cell"), run("broken", fault="raise")]
    first = measure_round(place, *lines)
    file = place.results / first["keras"].path
    file.rename(file.with_suffix(RETRIED))
    again = measure_round(place, *lines)
    assert again["cell"].round.id == again["keras"].round.id != first["cell"].round.id
    assert again["broken"] == first["broken"], "a void run cannot be compared anyway"
    found = results(place, *lines)
    assert [found[line["name"]].record for line in lines] == [
        again[line["choices"]["rnn"]].path for line in lines
    ]
    named, _ = read_records(found.values(), place.results)
    assert effects_of(named.values()).keys() == {again["keras"].key, again["cell"].key}


def test_a_companion_without_a_record_is_not_named(place: Place, monkeypatch) -> None:
    measure_round(place, run("keras"))
    supervise = measuring.supervise

    def killing(workers, *how):
        outcomes = supervise(workers, *how)
        (companion,) = (name for name in outcomes if "keras" in name)
        outcomes[companion].exit_code = members.SIGKILLED
        return outcomes

    monkeypatch.setattr(measuring, "supervise", killing)
    lines = [run("keras"), run("cell")]
    with pytest.raises(RunError, match="received an external SIGKILL"):
        measure_round(place, *lines)
    result = results(place, *lines)[lines[1]["name"]]
    assert result.is_valid(place.results, None) and not result.companions


def test_a_new_configuration_is_compared_with_its_own_companion(place: Place) -> None:
    for repeat in range(2):
        measure_round(place, run("keras", repeat), run("cell", repeat, epoch_seconds=2.5 * EPOCH))
    found = {}
    for repeat in range(2):
        lines = [run("keras", repeat), run("cell", repeat)]
        lines.append(run("late", repeat, epoch_seconds=1.5 * EPOCH))
        measure_round(place, *lines)
        found |= results(place, *lines)
    named, _ = read_records(found.values(), place.results)
    records = list(named.values())
    assert len(records) == 8 and sum(r.round.companion for r in records) == 2
    table = time_table(Measurements(tidy(records), {"rnn": "keras"})).set_index("rnn")
    assert table["runs"].to_dict() == {"keras": 2, "cell": 2, "late": 2}
    for rnn, factor in (("late", 1.5), ("cell", 2.5)):
        rounds = {record.round.id for record in records if record.run.choices["rnn"] == rnn}
        slept = [slept_effects(r for r in records if r.round.id == each) for each in rounds]
        log = statistics.mean(effects["keras"] - effects[rnn] for effects in slept)
        assert outside(math.log(table.loc[rnn, "speedup"]), log, -math.log(factor)) < 0.1
    # In a noisy hour, one of its two rounds may not count.
    quiet = [in_a_quiet_hour(record) for record in records]
    table = time_table(Measurements(tidy(quiet), {"rnn": "keras"})).set_index("rnn")
    method = table.loc["late", "method"]
    assert method.in_turns and method.units == 2


def test_each_cohort_of_a_large_round_includes_the_reference(place: Place, monkeypatch) -> None:
    monkeypatch.setattr(cohorts, "available_bytes", lambda: int(2.1 * GUESS_BYTES / 0.7))
    lines = [run("keras"), run("cell"), run("block")]
    records = measure_round(place, *lines)
    assert set(records["cell"].round.members) == {lines[0]["name"], lines[1]["name"]}
    assert set(records["block"].round.members) == {lines[0]["name"], lines[2]["name"]}
    assert not records["keras"].round.companion
    found = results(place, *lines)
    assert not found[lines[1]["name"]].companions and len(found[lines[2]["name"]].companions) == 1


def test_runs_without_turns_are_measured_on_their_own(place: Place) -> None:
    lines = [run("keras"), run("cell")]
    lines[1]["config"]["measure"]["turns"] = False
    records = measure_round(place, *lines)
    for record in records.values():
        assert record.round.members == (record.name,) and effects_of([record]) == {}
        assert record.turns["steps"] == [4 * 20], "all steps are timed"
