"""Why a run whose certificate failed is not trained, and what to do about it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rnnbench import locks
from rnnbench.records.record import Reason
from rnnbench.records.rounds import results_of
from rnnbench.records.store import Place, write_json, write_record
from rnnbench.running.refusals import refusals
from rnnbench.running.round import LocalRound, adoptable_records, measure
from rnnworker import machine
from tests.factory import as_run, make_record, planned_certificate, replace
from tests.running.test_running_train import planned

KEY = "fake-lstm-fake"
WRONG = "outputs differ"


def line(implementation: str = "fake", device: str = "cpu_1", **config: Any) -> dict[str, Any]:
    made = planned()
    made["certificate"] = KEY
    made["choices"] |= {"rnn": "mine", "device": device}
    made["config"]["rnn"]["implementation"] = implementation
    for section, values in config.items():
        made["config"][section] |= values
    return made


def certificate(place: Place, entry: dict[str, Any], digest: str = "d", *others: str) -> None:
    """Writes the certificate of `mine`, and its plan for cpu_1 and cpu_2, with `others`."""
    files = {name: name for name in ("mine", *others)}
    made = {"schema": 3, "implementations": {"mine": entry}, "digest": digest}
    write_json(place.folder / f"certificates/{KEY}.json", made)
    planned = planned_certificate("d", files, ["cpu_1", "cpu_2"])
    write_json(place.folder / "certificates.json", {KEY: planned})


def refused(place: Place, made: dict[str, Any]) -> Reason | None:
    return refusals([as_run(made)], place).get(made["name"])


FAILED = {"status": "failed", "function_why": WRONG}
STEPS = {"threads": 1, "steps": 30, "off": 3, "worst": 0.5}
LOG = f"results/here/selftest/certificates/work/{KEY}"


@pytest.mark.parametrize(
    ("entry", "made", "text", "remedies"),
    [
        (FAILED, line(), f"rnn=mine failed: {WRONG}",
         ["correct the model, the data or", f"; {LOG}.log has", "+measure.uncertified=true"]),
        (FAILED, line("/home/me/mine.py"), WRONG, ["correct /home/me/mine.py or its YAML"]),
        ({**FAILED, "function_why": "std::bad_alloc", "code": "out_of_memory"},
         line("/home/me/mine.py"), "std::bad_alloc",
         ["use shorter sequences"]),
        # What failed on a later device is in its own log, unless the function is wrong everywhere.
        ({"status": "failed", "applied": {"cpu_2": STEPS}}, line(device="cpu_2"),
         "3 of 30 training steps", [f"{LOG}.1.log has"]),
        (FAILED, line(device="cpu_2"), WRONG, [f"{LOG}.log has"]),
        (FAILED, line(device="cpu_3"), WRONG, [f"{LOG}.log has"]),
        ({"status": "refused", "function_why": "masks are not honoured"}, line(),
         "refused: masks are not honoured", ["measure without rnn=mine"]),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_wrong_and_what_to_correct(
    place: Place, entry: dict, made: dict, text: str, remedies: list[str]
) -> None:
    certificate(place, entry)
    reason = refused(place, made)
    assert reason is not None and reason.code == "not_certified" and text in reason.text
    assert all(remedy in reason.remedy for remedy in remedies)


def test_a_run_is_trained_unless_its_own_certificate_failed_on_its_device(place: Place) -> None:
    assert refused(place, line()) is None, "no plan of certificates"
    certificate(place, {"status": "certified"})
    assert refused(place, line()) is None
    certificate(place, {"status": "failed", "applied": {"cpu_2": STEPS}})
    assert refused(place, line()) is None and refused(place, line(device="cpu_2"))
    certificate(place, FAILED, digest="of older code")
    assert refused(place, line()) is None
    certificate(place, FAILED)
    for made in (
        line(measure={"uncertified": True}),
        line(build={"as_published": True}),
        {**line(), "certificate": None},
        {**line(), "certificate": "another"},
        {**line(), "choices": {**line()["choices"], "rnn": "other"}},
    ):
        assert refused(place, made) is None
    (place.folder / f"certificates/{KEY}.json").write_text("[")
    assert refused(place, line()) is None


def test_a_fault_of_all_that_is_lack_of_memory_asks_for_less(place: Place) -> None:
    fault = {"status": "failed", "function_why": "std::bad_alloc", "code": "out_of_memory"}
    made = {"schema": 3, "implementations": {"mine": fault, "other": fault}, "digest": "d"}
    certificate(place, fault, "d", "other")
    write_json(place.folder / f"certificates/{KEY}.json", made)
    reason = refused(place, line())
    assert reason is not None and "certificate of every implementation failed" in reason.text
    assert reason.remedy.startswith("use shorter sequences")
    assert reason.remedy.endswith(f"; {LOG}.log has the details."), "it would fail as well"


def test_a_round_says_for_whom_it_waits(place: Place, capsys: pytest.CaptureFixture) -> None:
    """The only run is not trained, so that no worker is started."""
    certificate(place, FAILED)
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locks.locked(place.timing_lock, "somebody else"):
            taken.set()
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(20)
    threading.Timer(0.2, done.set).start()
    (record,) = measure([as_run(line())], place, label="[1/1]").values()
    holder.join()
    assert (record.verdict.status, record.epochs, record.phases) == ("void", (), ())
    assert record.started == record.finished
    assert (record.site, record.experiment) == (place.site, place.experiment)
    assert record.round_id.endswith(f"/{record.started}")
    told = capsys.readouterr().err
    assert "[1/1] waiting for this host to finish timing (somebody else)" in told


def runner_at(place: Place, machine_name: str) -> LocalRound:
    unused = dict.fromkeys(("check", "label", "name", "pinned_md5", "timing"))
    return LocalRound(place=place, hardware={"machine": machine_name}, **unused)


def test_of_two_attempts_on_two_hosts_the_one_that_started_later_counts(place: Place) -> None:
    """Whichever ends first; a record of other inputs does not count."""
    early = replace(make_record(), experiment=place.experiment, site=place.site)
    late = replace(early, machine="another", started="20991121T000000_000000Z")
    changed = replace(
        late, run=replace(early.run, digest="f" * 64), started="20991121T000000_001000Z"
    )
    for ended, counts in ((early, early), (late, late), (changed, late)):
        write_record(place.results, ended)
        records = adoptable_records([early.run], place)
        assert results_of(records)[early.name].record == counts.path
    records = adoptable_records([changed.run], place)
    assert results_of(records)[early.name].record == changed.path


def test_a_damaged_record_is_set_aside_on_its_own_machine(place: Place) -> None:
    made = make_record()
    files = []
    for name in (machine.fingerprint()["machine"], "another"):
        file = write_record(place.results, replace(made, machine=name))
        file.write_text("{")
        files.append(file)
    assert adoptable_records([made.run], place) == []
    assert [file.exists() for file in files] == [False, True]
    assert files[0].with_suffix(".unreadable").read_text() == "{"


def test_the_peak_is_that_of_the_latest_run_of_the_configuration(place: Place) -> None:
    here = machine.fingerprint()["machine"]

    def peaks(*records: tuple[str, int, object, str]) -> list[int]:
        """Of a configuration with records of these machines, repeats, peaks and starts."""
        for name, repeat, peak, started in records:
            made = make_record(machine=name, repeat=repeat)
            of_run = {**made.facts, "peak_memory_bytes": peak}
            stamp = f"20261121T0{started}0000_000000Z"
            write_record(place.results, replace(made, facts=of_run, started=stamp))
        longer = make_record(machine=here, overrides={"rnn.x": "-s0-r0"})
        write_record(place.results, replace(longer, started="20991121T000000_000000Z"))
        runs = [make_record(machine=here).run, make_record(rnn="other").run]
        runner = runner_at(place, here)
        runner.by_name.update((run.name, run) for run in runs)
        return runner.peaks([run.as_dict() for run in runs])

    assert peaks() == []
    # The file of the second repeat is the later one, although that of the first sorts after it.
    assert peaks((here, 0, 100, "2"), (here, 1, 300, "1"), ("another", 0, 999, "9")) == [100]
    assert peaks((here, 1, 50, "3")) == [50]
    assert peaks((here, 0, None, "4")) == []
