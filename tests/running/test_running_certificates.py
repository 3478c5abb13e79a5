"""Certificates from complete and incomplete reports of a worker, and from real workers: with a
memory limit, killed, and out of memory."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rnnworker
from rnnbench import locks
from rnnbench.commands.rules import certificate_summary as summary
from rnnbench.errors import RunError
from rnnbench.records.plan_file import PlannedCertificate
from rnnbench.records.store import Place, read_json
from rnnbench.running import certificates, worker
from rnnbench.running.worker import Outcome
from rnnbench.sources.certificates import Certificate, Implementation, Pair, certificate_of
from rnnworker.precision import TOLERANCE

STEPS = {"threads": 1, "steps": 30, "off": 0, "worst": 2e-7, "why": None}
BATCH = {"rows": 16, "training": True, "outputs": 1e-7, "gradients": 1e-6, "compared": 16}
LAYERS = {"batches": [BATCH], "wrong": None, "why": None}
ENTRY = {
    "status": "certified", "why": None, "code": None, "kernel": ["while"], "outputs": 1e-7,
    "gradients": 1e-6,
    "loss_curve": [2.0] * 20, "round_trip": True, "draws": False, "function": None,
    "no_reference": None, "applied": {"cpu_1": STEPS}, "probed": {"cpu_1": LAYERS},
}  # fmt: skip
REPORTED = {
    "precision": "float32",
    "tolerance": TOLERANCE["float32"],
    "implementations": {"keras": ENTRY},
    "pairs": [],
}


def cpu(number: int, *names: str, threads: int = 1) -> dict[str, Any]:
    """A device of a planned certificate, and the implementations that the grid has on it."""
    device = {"name": f"cpu_{number}", "kind": "cpu", "threads": threads}
    sizes = [{"batch": 16}]
    return {
        "name": device["name"], "device": device, "implementations": names, "batches": sizes,
    }  # fmt: skip


def implementations(*names: str, **skipped: str) -> list[dict[str, Any]]:
    whys = {**skipped, **dict.fromkeys(names)}
    return [{"name": name, "rnn": {}, "skip": why} for name, why in whys.items()]


PLANNED = {
    "key": "digits_rnn-lstm-current",
    "digest": "d",
    "choices": {"model": "digits_rnn", "cell": "lstm", "build": "current"},
    "overrides": {"model.units": 8},
    "config": {
        **{"device": {"threads": 1}, "dataset": {"path": None}},
        "build": {"name": "b", "framework": "fake"},
    },
    "devices": [cpu(1, "keras")],
    "implementations": implementations("keras", cudnn="cuDNN runs on NVIDIA GPUs only"),
}
FACTS = {"event": "facts", "t": 1.0, "certificate": REPORTED}


def as_planned(planned: dict) -> PlannedCertificate:
    return msgspec.convert({"identity": {}, **planned}, PlannedCertificate)


def assembled(planned: dict, **outcomes: Outcome) -> dict:
    return certificates.assembled_certificate(as_planned(planned), outcomes, "here")


def test_it_has_the_format_that_the_report_reads() -> None:
    made = assembled(PLANNED, cpu_1=Outcome(events=[FACTS]))
    assert made["schema"] == 4
    assert {**made, **PLANNED["choices"]} == made
    assert made["overrides"] == {"model.units": 8}
    assert made["tolerance"] == REPORTED["tolerance"]
    assert list(made["implementations"]) == ["cudnn", "keras"]
    assert made["implementations"]["keras"] == {**ENTRY, "function_why": None}
    cudnn = made["implementations"]["cudnn"]
    assert (cudnn["status"], cudnn["why"]) == ("not_run", "cuDNN runs on NVIDIA GPUs only")
    assert set(cudnn) == {*ENTRY, "function_why"}
    json.dumps(made, allow_nan=False)


def test_it_says_what_it_was_made_from_and_is_judged_by_the_tolerance_of_its_precision() -> None:
    """A difference that float32 does not allow and TF32 does."""
    pair = {"a": "block", "b": "keras", "outputs": 1e-3, "gradients": 1e-3, "loss_curve": 1e-3}
    pair |= {"first_loss": 1e-5, "weights": 1e-3}
    both = {"block": ENTRY, "keras": ENTRY}
    planned = {**PLANNED, "implementations": implementations("block", "keras")}
    planned["devices"] = [cpu(1, "block", "keras")]
    for precision, equal in (("float32", False), ("tf32", True)):
        reported = {"precision": precision, "implementations": both, "pairs": [pair]}
        facts = {**FACTS, "certificate": reported}
        made = assembled(planned, cpu_1=Outcome(events=[facts]))
        assert (made["digest"], made["machine"], made["precision"]) == ("d", "here", precision)
        assert made["tolerance"] == TOLERANCE[precision]
        assert [each["equal"] for each in made["pairs"]] == [equal]
        assert made["pairs"][0]["outputs"] == 1e-3
        assert all(entry["function_why"] is None for entry in made["implementations"].values())


ON_TWO = {
    **PLANNED,
    "implementations": implementations("block", "keras"),
    "devices": [cpu(1, "block", "keras"), cpu(2, "keras", threads=2)],
}


def on_two_devices(applied: dict | None, probed: dict = LAYERS) -> dict:
    """A certificate of `block` and `keras`; `applied`, `probed`: what was found for `keras` on a
    second device."""
    first = {**REPORTED, "implementations": {"block": ENTRY, "keras": ENTRY}}
    second = {"keras": {"applied": {"cpu_2": applied}, "probed": {"cpu_2": probed}}}
    second = {"implementations": second if applied else {}}
    outcomes = (Outcome(events=[{**FACTS, "certificate": each}]) for each in (first, second))
    return assembled(ON_TWO, **dict(zip(("cpu_1", "cpu_2"), outcomes, strict=True)))


def test_steps_that_apply_other_gradients_are_a_failure_on_that_device() -> None:
    off = {"threads": 2, "steps": 30, "off": 13, "worst": 0.873, "why": None}
    entries = on_two_devices(off)["implementations"]
    assert entries["keras"]["applied"] == {"cpu_1": STEPS, "cpu_2": off}
    assert entries["keras"]["status"] == "failed"
    assert entries["keras"]["why"] == (
        "on cpu_2 it applies wrong gradients: 13 of 30 training steps applied a gradient other "
        "than the computed one (worst 87 %)"
    )
    # The function itself is right.
    assert entries["keras"]["function_why"] is None
    block = entries["block"]
    assert (block["status"], block["applied"]) == ("certified", {"cpu_1": STEPS})
    json.dumps(entries, allow_nan=False)


def test_layers_that_are_wrong_on_one_device_are_a_failure_there() -> None:
    wrong = "outputs differ from the float64 reference by 3e-01 (tolerance 1e-05) at batch 16 with "
    wrong += "training=True on cpu_2"
    batches = [BATCH, {**BATCH, "outputs": 0.3}]
    entries = on_two_devices(STEPS, {**LAYERS, "batches": batches})["implementations"]
    keras = entries["keras"]
    assert (keras["status"], keras["why"], keras["function_why"]) == ("failed", wrong, None)
    assert (keras["probed"]["cpu_1"], keras["probed"]["cpu_2"]["wrong"]) == (LAYERS, wrong)
    assert entries["block"]["status"] == "certified"
    assert list(entries["block"]["probed"]) == ["cpu_1"], "the grid has it on no other device"


def test_what_was_not_reported_is_named() -> None:
    keras = on_two_devices(None)["implementations"]["keras"]
    assert keras["status"] == "certified"
    assert keras["probed"]["cpu_2"]["batches"] == []
    assert "without reporting it" in keras["probed"]["cpu_2"]["why"]
    assert keras["applied"]["cpu_2"]["off"] is None
    assert "without reporting it" in keras["applied"]["cpu_2"]["why"]


def test_a_worker_that_died_certified_nothing_and_its_summary_names_a_remedy() -> None:
    made = assembled(PLANNED, cpu_1=Outcome(exit_code=-11, phase="certify_keras"))
    assert (made["implementations"]["keras"]["status"], made["pairs"]) == ("failed", [])
    assert made["implementations"]["cudnn"]["status"] == "not_run"
    silent = assembled(PLANNED, cpu_1=Outcome(exit_code=0, phase="certify_keras"))
    assert silent["implementations"]["keras"]["why"].endswith("it, in phase certify_keras")
    certificate = certificate_of(made, "here")
    first, second = summary(certificate, {"keras": "/home/me/mine.py", "block": "block"})
    assert first == "certificate digits_rnn-lstm-current: 1 failed, 1 not run"
    assert second.startswith("  keras failed: was terminated by SIGSEGV")
    remedy = "Fix: correct /home/me/mine.py or its YAML, as docs/own_kernel.md describes."
    assert second.endswith(f"in phase certify_keras. {remedy}")
    _, second = summary(certificate, {"keras": "keras"})
    assert "Fix" not in second


def test_an_implementation_that_hangs_does_not_affect_finished_ones() -> None:
    names = ("keras", "slow", "untried")
    phase = "certify_slow"
    outcome = Outcome(events=[FACTS], exit_code=-15, phase=phase, over_limit=phase)
    entries = implementations(*names)
    planned = {**PLANNED, "implementations": entries, "devices": [cpu(1, *names)]}
    made = assembled(planned, cpu_1=outcome)
    statuses = {name: entry["status"] for name, entry in made["implementations"].items()}
    assert statuses == {"keras": "certified", "slow": "failed", "untried": "not_run"}
    assert "exceeded its time limit" in made["implementations"]["slow"]["why"]


# The worker with another function in place of the one that certifies.
WORKER = """
import json, os, sys
sys.path.insert(0, {source!r})
from rnnworker import certify, run
def instead(job, events, phases):
    {before}
    with phases.phase('certify_keras'):
        {statement}
certify.certify = instead
sys.exit(run.main(sys.argv[2:]))
"""


def file_in(place: Place) -> Path:
    return place.folder / "certificates" / f"{PLANNED['key']}.json"


def made(
    place: Place, monkeypatch: pytest.MonkeyPatch, statement: str, before: str = "pass"
) -> Certificate:
    """The certificate of a worker that executes `statement` in the phase of `keras`."""
    source = str(Path(rnnworker.__file__).parents[1])
    script = WORKER.format(source=source, statement=statement, before=before)
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    limits = {"limits": {"memory_bytes": 2**30}}
    planned = {**PLANNED, "config": {**PLANNED["config"], **limits}}
    return certificates.certify(as_planned(planned), place)


def test_it_is_written_to_the_path_that_snakemake_expects(
    place: Place, monkeypatch, capsys
) -> None:
    facts = f"events.emit('facts', certificate=json.loads({json.dumps(REPORTED)!r}))"
    names = "[entry['name'] for entry in job['implementations']]"
    check = (
        f"print('on its standard output'); assert (job['mode'], {names}) == ('certify', ['keras'])"
    )
    result = made(place, monkeypatch, facts, check)
    assert certificate_of(read_json(file_in(place)), "here") == result
    # The report reads every JSON file in this folder.
    assert list(file_in(place).parent.glob("*.json")) == [file_in(place)]
    assert result.implementations["keras"].status == "certified"
    assert capsys.readouterr().err == "", "a phase is shown on a terminal only"


def test_who_keeps_it_waiting_and_which_implementation_it_is_at_are_shown(
    place: Place, monkeypatch
) -> None:
    facts = f"events.emit('facts', certificate=json.loads({json.dumps(REPORTED)!r}))"
    drawn = []
    monkeypatch.setattr(certificates, "draw", drawn.append)
    with ExitStack() as held:
        held.enter_context(locks.locked(place.timing_lock, "round r of quick", print))

        def said(text: str) -> None:
            drawn.append(text)
            held.close()

        monkeypatch.setattr(certificates, "print_progress", said)
        made(place, monkeypatch, facts)
    label = f"certificate {PLANNED['key']}: "
    waiting = f"{label}waiting for this host to finish timing (round r of quick)"
    assert drawn[0] == waiting and f"{label}keras" in drawn


def test_the_memory_limit_applies(place: Place, monkeypatch) -> None:
    result = made(place, monkeypatch, "bytearray(2**31)").implementations["keras"]
    assert result.status == "failed"
    assert "MemoryError in phase certify_keras" in result.why


def test_an_external_sigkill_leaves_none(place: Place, monkeypatch) -> None:
    with pytest.raises(RunError, match="received an external SIGKILL in phase certify_keras"):
        made(place, monkeypatch, "os.kill(os.getpid(), 9)")
    assert not file_in(place).exists()


def test_memory_errors_in_its_log_are_recognised(place: Place, monkeypatch) -> None:
    def why(statement: str) -> str:
        return made(place, monkeypatch, statement).implementations["keras"].why

    expected = "ran out of memory in native code (SIGABRT) in phase certify_keras"
    assert why('os.write(2, b"std::bad_alloc"); os.abort()') == expected
    # The log of the earlier attempt has been removed.
    assert why("os.abort()") == "was terminated by SIGABRT in phase certify_keras"


# A worker that reports the device and the number of threads that it was started with.
PER_DEVICE = """
import json, os, sys
with open(sys.argv[-1]) as file:
    job = json.load(file)
steps = {"threads": job["threads"], "steps": 30, "off": 0, "worst": 0.0, "why": None}
errors = {"outputs": 1e-7, "gradients": 1e-6}
batches = [dict(errors, rows=batch["batch"], training=True) for batch in job["batches"]]
layers = {"batches": batches, "wrong": None, "why": None}
result = {"applied": {job["device"]: steps}, "probed": {job["device"]: layers}}
if not job["further_device"]:
    result.update(status="certified", why=None, outputs=1e-7, function=None)
names = [entry["name"] for entry in job["implementations"]]
certificate = {"precision": "float32", "implementations": {name: result for name in names}}
event = {"event": "facts", "t": 1.0, "certificate": certificate}
os.write(int(os.environ["RNNWORKER_EVENTS"]), (json.dumps(event) + "\\n").encode())
"""


def test_one_worker_is_started_for_each_device(place: Place, monkeypatch) -> None:
    command = (sys.executable, "-c", PER_DEVICE)
    monkeypatch.setattr(worker, "launcher", lambda build, root: command)
    entries = certificates.certify(as_planned(ON_TWO), place).implementations
    assert list(entries["block"].applied) == ["cpu_1"]
    assert list(entries["keras"].applied) == ["cpu_1", "cpu_2"]
    assert list(entries["keras"].probed) == ["cpu_1", "cpu_2"]
    assert [steps.threads for steps in entries["keras"].applied.values()] == [1, 2]
    assert entries["keras"].outputs == 1e-7


CARD = {"name": "Tesla K80", "uuid": None}


@pytest.mark.parametrize(
    ("capacity", "card", "groups"), [(2, None, [2]), (1, None, [1, 1]), (9, CARD, [1, 1])]
)
def test_workers_run_side_by_side_if_memory_suffices_and_none_uses_a_card(
    place: Place, monkeypatch, capacity: int, card: object, groups: list[int]
) -> None:
    started: list[int] = []

    def supervise(members: list, **_: object) -> dict[str, Outcome]:
        started.append(len(members))
        return {member.name: Outcome() for member in members}

    job_of = certificates.job_of
    monkeypatch.setattr(certificates, "supervise", supervise)
    monkeypatch.setattr(certificates, "memory_capacity", lambda available: capacity)
    monkeypatch.setattr(
        certificates, "job_of", lambda *given, **more: {**job_of(*given, **more), "card": card}
    )
    certificates.certify(as_planned(ON_TWO), place)
    assert started == groups


def test_lack_of_memory_next_to_others_is_tried_again_alone(
    place: Place, monkeypatch, capsys
) -> None:
    """And what an earlier attempt left is removed."""
    started: list[list[str]] = []
    log = place.folder / "certificates/work" / f"{PLANNED['key']}.1.log"

    def supervise(members: list, **_: object) -> dict[str, Outcome]:
        started.append([member.name for member in members])
        assert not log.exists()
        log.write_text("std::bad_alloc")
        lack = {"exit_code": -6, "log_tail": "std::bad_alloc" if len(members) > 1 else ""}
        return {each.name: Outcome(**lack if each.name == "cpu_2" else {}) for each in members}

    log.parent.mkdir(parents=True)
    log.touch()
    monkeypatch.setattr(certificates, "supervise", supervise)
    checked: list[bool] = []
    file = log.parents[1] / f"{PLANNED['key']}.json"
    made = certificates.certify(as_planned(ON_TWO), place, lambda: checked.append(file.exists()))
    assert started == [["cpu_1", "cpu_2"], ["cpu_2"]] and checked == [False]
    assert certificate_of(read_json(file), "here") == made
    told = f"certificate {PLANNED['key']} on cpu_2: ran out of memory; retrying it on its own\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("equal", "status", "line"),
    [
        (True, "certified", "2 implementations compute the same function (MODEL)"),
        (False, "certified", "certificate k: 2 certified"),
        (True, "not_run", "certificate k: 1 certified, 1 not run"),
    ],
)
def test_a_certificate_without_a_fault_is_one_line(equal: bool, status: str, line: str) -> None:
    made = Certificate(
        schema=4,
        key="k",
        model="digits_rnn",
        cell="lstm",
        build="current",
        implementations={"keras": Implementation("certified"), "block": Implementation(status)},
        pairs=[Pair("keras", "block", equal)],
    )
    assert summary(made, {}) == [line.replace("MODEL", "digits_rnn, lstm")]
