"""The loop over rounds, and the commands `round` and `rounds` that run it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rnnbench.builds.launcher import lock_of
from rnnbench.builds.pins import build_of
from rnnbench.commands import rounds, rules
from rnnbench.datasets.pins import own_md5, pinned
from rnnbench.errors import RecordError, RunError
from rnnbench.planning.digests import worker_digest
from rnnbench.records.plan_file import PlannedCertificate, PlannedRound, digest_of_round
from rnnbench.records.record import Run
from rnnbench.records.rounds import Result, read_results, results_in
from rnnbench.records.store import Place, read_record, record_files, write_json, write_record
from tests.conftest import ROOT
from tests.factory import as_run, make_record, put
from tests.factory import replace as with_changes
from tests.running.test_running_train import planned

FACTS = {"name": "selftest", "title": "t", "about": "", "reference": {}}


def test_a_round_needs_the_facts_of_its_experiment(place: Place, monkeypatch) -> None:
    """Without them it would be measured without its reference."""
    monkeypatch.setattr(rounds, "end_with_snakemake", lambda: None)
    run = as_run(planned())
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(run.line())
    digest = digest_of_round({run.name: run.digest})
    with pytest.raises(RecordError, match="does not exist") as caught:
        rounds.round([str(place.folder / f"rounds/{run.round}.json"), "--digest", digest])
    assert caught.value.where.endswith("experiment.json")


@pytest.mark.fault(
    "the file of a round is truncated",
    "detected; made again from the records",
    "run the same command",
)
def test_a_round_writes_its_file_from_its_records(place: Place, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rounds, "end_with_snakemake", lambda: None)
    monkeypatch.setattr(rules, "INPUTS", {})
    run = as_run(planned())
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(run.line())
    write_json(place.folder / "experiment.json", FACTS)
    file = place.folder / f"rounds/{run.round}.json"
    digest = digest_of_round({run.name: run.digest})
    arguments = [str(file), "--digest", digest, "--root", str(place.root)]
    assert rounds.round(arguments) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"[1/1] {run.name} ") and "s per epoch" in last, last
    (record,) = record_files(place.results)
    assert read_results(file) == {run.name: Result.of(read_record(record))}
    content = file.read_bytes()
    for share in (0.0, 0.5):
        file.write_bytes(content[: int(share * len(content))])
        with pytest.raises(RecordError):
            read_results(file)
        assert rounds.round(arguments) == 0
        assert f" {run.round}: every run is already measured" in capsys.readouterr().err
        assert file.read_bytes() == content


@pytest.mark.parametrize("left", ["nothing", "a companion", "a record of other code"])
def test_a_round_has_not_begun_if_none_of_its_runs_has_a_record(place: Place, left: str) -> None:
    """It is then not measured beyond the budget."""
    made = [make_record(repeat=repeat) for repeat in (1, 2)]
    first, second = (with_changes(each, site=place.site, experiment="selftest") for each in made)
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(first.run.line() + second.run.line())
    put(place.results, first, site=place.site, experiment=place.experiment)
    if left == "a companion":
        round_ = with_changes(second.round, companion=True)
        write_record(place.results, with_changes(second, round=round_))
    elif left == "a record of other code":
        run = with_changes(second.run, digest="other")
        write_record(place.results, with_changes(second, run=run))
    rule = {"least": 2, "most": 3, "budget_s": 0.1}
    write_json(place.folder / "experiment.json", {**FACTS, "repeats": rule})
    with rounds.Loop(place) as loop:
        unneeded = loop._unneeded([second.run], "", None)
        assert unneeded[second.name].not_needed.is_over_budget
        write_record(place.results, second)
        assert not loop._unneeded([second.run], "", None)


def test_each_dataset_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pin = next(iter(pinned(ROOT).items()))
    verified, calls = [], []
    monkeypatch.setattr(rules, "verify", lambda *arguments: verified.append(arguments))
    monkeypatch.setattr(rounds, "measure", lambda *_, **options: calls.append(options) or {})
    runs = [planned(f"fake-lstm-{rnn}-cpu_1-fake-s0-r0") for rnn in ("a", "b", "c")]
    for run in runs[:2]:
        run["config"]["dataset"] = {"name": "mine", "path": path}
    rules._data_md5.cache_clear()
    monkeypatch.setattr(rules, "INPUTS", {})
    monkeypatch.setattr(rounds, "worker_digest", lambda config: "w")
    place = Place(ROOT, tmp_path, "here", "selftest", tmp_path / "timing.lock")
    write_json(place.folder / "experiment.json", FACTS)
    with rounds.Loop(place) as loop:
        loop._measure([as_run(run) for run in runs], "[1/1]", None)
    assert verified == [(ROOT / path, pin, "mine")]
    assert list(calls[0]["pinned_md5"].values()) == [pin.md5, pin.md5, None]


def three_rounds(place: Place) -> list[Run]:
    """A plan of three rounds of one run."""
    runs = []
    for repeat in range(3):
        line = planned(f"fake-lstm-cpu_1-fake-s0-r{repeat}")
        line |= {"round": line["name"], "repeat": repeat, "order": repeat}
        runs.append(as_run(line))
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(b"".join(run.line() for run in runs))
    write_json(place.folder / "experiment.json", FACTS)
    write_json(place.folder / "certificates.json", {})
    return runs


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rounds that were measured, in this order."""
    names: list[str] = []
    measure = rounds.measure

    def noted(needed: Sequence[Run], *arguments: Any, **options: Any) -> dict[str, Any]:
        names.append(needed[0].name)
        return measure(needed, *arguments, **options)

    monkeypatch.setattr(rounds, "measure", noted)
    monkeypatch.setattr(rounds, "end_with_snakemake", lambda: None)
    monkeypatch.setattr(rules, "INPUTS", {})
    return names


def batch_of(place: Place, runs: Sequence[Run]) -> list[str]:
    digest = digest_of_round({run.name: run.digest for run in runs})
    file = place.folder / "measured/0.json"
    return [str(file), "--digest", digest, "--root", str(place.root)]


def test_a_batch_measures_its_rounds_in_order_and_only_what_is_missing(
    place: Place, measured: list[str], capsys
) -> None:
    runs = three_rounds(place)
    arguments = batch_of(place, runs)
    assert rounds.rounds(arguments) == 0
    names = [run.name for run in runs]
    assert measured == names
    file = Path(arguments[0])
    assert read_results(file) == results_in(place.folder)[0] and len(read_results(file)) == 3

    lost = record_files(place.results, name=names[1])[0]
    lost.unlink()
    assert rounds.rounds(arguments) == 0
    assert measured == [*names, names[1]]
    assert read_results(file) == results_in(place.folder)[0]
    capsys.readouterr()
    assert rounds.rounds(arguments) == 0
    assert measured == [*names, names[1]]
    assert "every run is already measured" in capsys.readouterr().err


def test_a_batch_first_makes_the_certificates_that_its_runs_lack(
    place: Place, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the processes that its workers are forked from, so that a framework is imported once."""
    certified = []
    monkeypatch.setattr(rounds.Importers, "end", lambda importers: certified.append(importers))
    monkeypatch.setattr(rounds, "make_planned_certificate", lambda *each: certified.append(each))
    runs = [replace(run, certificate=f"key{run.repeat}") for run in three_rounds(place)]
    (place.folder / "plan.jsonl").write_bytes(b"".join(run.line() for run in runs))
    digests = {"key0": "kept", "key1": "new", "key2": "new", "of another batch": "new"}
    plans = {key: planned_certificate(key, digest) for key, digest in digests.items()}
    write_json(place.folder / "certificates.json", plans)
    for key, digest in (("key0", "kept"), ("key1", "old")):
        write_json(place.folder / f"certificates/{key}.json", {"digest": digest})

    assert rounds.rounds(batch_of(place, runs)) == 0
    *made, importers = certified
    assert [(each, where.folder, own) for each, where, own in made] == [
        (plans["key1"], place.folder, importers),
        (plans["key2"], place.folder, importers),
    ]
    assert measured == [run.name for run in runs]


def planned_certificate(key: str, digest: str) -> PlannedCertificate:
    return PlannedCertificate(
        key=key,
        digest=digest,
        identity={},
        choices={},
        overrides={},
        config={},
        implementations=(),
        devices=(),
    )


def test_the_error_of_a_round_is_said_and_the_others_are_measured(
    place: Place, measured: list[str], monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    runs = three_rounds(place)
    arguments = batch_of(place, runs)
    measure = rounds.measure

    def failing(needed: Sequence[Run], *others: Any, **options: Any) -> dict[str, Any]:
        if needed[0].repeat < 2:
            raise RunError("received an external SIGKILL.", where=needed[0].name)
        return measure(needed, *others, **options)

    monkeypatch.setattr(rounds, "measure", failing)
    with pytest.raises(RunError, match="SIGKILL") as caught:
        rounds.rounds(arguments)
    assert caught.value.where == runs[1].name
    assert f"{runs[0].name}: received" in capsys.readouterr().err
    assert list(results_in(place.folder)[0]) == [runs[2].name]
    assert not Path(arguments[0]).exists(), "Snakemake would take the batch for finished"

    monkeypatch.setattr(rounds, "measure", measure)
    measured.clear()
    assert rounds.rounds(arguments) == 0
    assert measured == [runs[0].name, runs[1].name]


def test_a_batch_that_was_planned_again_is_not_measured(place: Place, measured: list[str]) -> None:
    runs = three_rounds(place)
    with pytest.raises(RunError, match="batch 0: was planned again"):
        rounds.rounds(batch_of(place, runs[:2]))
    assert not measured


@pytest.mark.fault(
    "data, code or a package change between two rounds of a batch",
    "the later rounds are refused before they are measured",
    "run the same command",
)
@pytest.mark.parametrize("what", ["data", "code", "removed", "package"])
def test_a_change_between_two_rounds_is_noticed(
    place: Place,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Even if size and time of modification are as before."""
    request.addfinalizer(rules.launcher.forget)  # the version that is made up
    files = {"data": place.root / "mine.npz", "code": place.root / "mine.py"}
    files["data"].write_bytes(b"data 1")
    files["code"].write_text("def build(): return 1\n")
    runs = []
    for run in three_rounds(place):
        line = run.as_dict()
        config = line["config"]
        config["dataset"] = {"name": "mine", "path": "mine.npz"}
        config["model"]["function"] = f"{files['code']}:build"
        line["identity"] = {
            "build_lock": lock_of(build_of(config["build"]), place.root),
            "dataset_md5": own_md5(files["data"]),
            "worker": worker_digest(config),
        }
        runs.append(as_run(line))
    (place.folder / "plan.jsonl").write_bytes(b"".join(run.line() for run in runs))

    def changing(needed: Sequence[Run], *_: Any, **__: Any) -> dict[str, Any]:
        measured.append(needed[0].name)
        if what == "package":
            version = rules.launcher.importlib.metadata.version
            changed = {"numpy": "9.9"}
            monkeypatch.setattr(
                rules.launcher.importlib.metadata,
                "version",
                lambda name: changed.get(name) or version(name),
            )
            return {}
        if what == "removed":
            files["code"].unlink()
            return {}
        file = files[what]
        before = file.stat()
        file.write_bytes(file.read_bytes().replace(b"1", b"2"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return {}

    measured: list[str] = []
    monkeypatch.setattr(rounds, "measure", changing)
    with pytest.raises(RunError, match="changed since the plan was made"):
        rounds.Loop(place).measure([PlannedRound(n, 3, [run]) for n, run in enumerate(runs)])
    assert measured == [runs[0].name]


def test_a_line_names_runs_by_what_varies_among_them() -> None:
    """Two model files with one implementation, and an override."""
    records = {}
    for model, overrides in (("rd0", {}), ("rd1", {"model.units": 512})):
        made = make_record(model=model, overrides=overrides)
        records[made.name] = made
    runs = [record.run for record in records.values()]
    (line,) = rounds._round_lines(runs, records, "")
    assert [part.split(" clean")[0] for part in line.split("; ")] == ["rd0", "rd1 units=512"]


@pytest.mark.parametrize(
    ("budget", "done", "text"),
    [
        (100.0, 1, "about 2 min left"),  # 90 s: nine of the twelve fit in
        (100.0, 2, "about 80 s left"),
        (15.0, 1, "about 20 s left"),  # three are measured in any case
        (15.0, 2, "about 10 s left"),
        (15.0, 3, ""),
    ],
)
def test_the_remaining_time_has_the_least_rounds_and_those_of_the_budget(
    place: Place, budget: float, done: int, text: str
) -> None:
    rule = {"least": 3, "most": 12, "budget_s": budget}
    write_json(place.folder / "experiment.json", {**FACTS, "repeats": rule})
    for number in range(done):
        result = Result(record="a", wall_seconds=10.0)
        rounds.write_results(place.folder / f"rounds/r{number}.json", {"a": result})
    with rounds.Loop(place) as loop:
        found = loop._remaining_time(12, done)
    assert found == (f", at most {text}" if text else "")
