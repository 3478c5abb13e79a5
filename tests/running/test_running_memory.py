"""A worker that ran out of memory is not tried again alike, and the advice fits."""

from __future__ import annotations

import sys
from itertools import chain, repeat

import pytest

from rnnbench.commands.rules import certificate_summary
from rnnbench.records.store import Place, write_json
from rnnbench.running import certificates, worker
from rnnbench.running.refusals import refusals
from rnnbench.running.verdict import LESS_MEMORY, failure_reason
from rnnbench.running.worker import Outcome
from rnnbench.sources.certificates import certificate_of
from rnnworker import proc_files
from tests.factory import make_record, planned_certificate, replace
from tests.running.test_running_certificates import (
    ON_TWO,
    PER_DEVICE,
    PLANNED,
    as_planned,
    assembled,
    cpu,
)

# The worker of the second device is killed at its first start, or at each.
DIES = """
import json, os, pathlib, signal, sys
with open(sys.argv[-1]) as file:
    job = json.load(file)
if job["device"] == "cpu_2":
    tries = pathlib.Path({tries!r})
    with tries.open("a") as file:
        file.write("x")
    if len(tries.read_text()) <= {deaths}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def certify(place: Place, monkeypatch: pytest.MonkeyPatch, planned: dict, deaths: int) -> tuple:
    """The certificate, and the number of starts of the second device's worker, of which the kernel
    kills the first `deaths`."""
    tries = place.root / "tries"
    script = DIES.format(tries=str(tries), deaths=deaths) + PER_DEVICE
    command = (sys.executable, "-c", script)
    monkeypatch.setattr(worker, "launcher", lambda build, root: command)
    kills = chain(range(2 * deaths), repeat(2 * deaths))
    monkeypatch.setattr(proc_files, "oom_kills", lambda: next(kills))
    monkeypatch.setattr(certificates, "available_bytes", lambda: 10**12)
    made = certificates.certify(as_planned(planned), place)
    return made, len(tries.read_text())


def test_a_device_without_memory_next_to_others_is_certified_on_its_own(place, monkeypatch) -> None:
    made, tries = certify(place, monkeypatch, ON_TWO, 1)
    assert tries == 2
    keras = made.implementations["keras"]
    assert keras.applied["cpu_2"].steps == 30
    assert keras.probed["cpu_2"].batches


def test_a_certificate_without_memory_on_its_own_is_not_tried_again(place, monkeypatch) -> None:
    alone = {**PLANNED, "devices": [cpu(2, "keras")]}
    made, tries = certify(place, monkeypatch, alone, 9)
    assert tries == 1
    keras = made.implementations["keras"]
    assert keras.status == "not_run" and "the kernel's OOM killer ended it" in keras.why


def test_the_advice_is_to_need_less_memory_and_blames_no_file() -> None:
    killed = Outcome(exit_code=-9, oom_kill=True, phase="certify_keras")
    reason = failure_reason(killed)
    assert reason is not None and reason.remedy.startswith(LESS_MEMORY)
    for file in ("keras", "/home/me/mine.py"):
        made = assembled(PLANNED, cpu_1=killed)
        assert made["implementations"]["keras"]["status"] == "failed"
        *_, line = certificate_summary(certificate_of(made, "here"), {"keras": file})
        assert line.endswith(f"in phase certify_keras. Fix: {LESS_MEMORY}.")


@pytest.mark.parametrize(
    "why",
    [
        "the kernel's OOM killer ended it (SIGKILL) in phase certify_block",
        "ResourceExhaustedError: Graph execution error:",
    ],
)
def test_a_run_whose_certificate_ran_out_of_memory_has_the_same_advice(
    why: str, place: Place
) -> None:
    failed = {"status": "failed", "why": why, "function_why": why, "code": "out_of_memory"}
    entries = {"block": failed, "keras": {"status": "certified"}}
    made = {"schema": 3, "implementations": entries, "digest": ""}
    write_json(place.folder / "certificates/fake.json", made)
    planned = planned_certificate("", {name: name for name in entries})
    write_json(place.folder / "certificates.json", {"fake": planned})
    run = replace(make_record(rnn="block").run, certificate="fake")
    reason = refusals([run], place)[run.name]
    assert why in reason.text and reason.remedy.startswith(f"{LESS_MEMORY}; ")
