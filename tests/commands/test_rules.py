"""What `rnnbench round` and `certify` check before they measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rnnbench.commands import rules
from rnnbench.datasets.pins import pinned
from rnnbench.errors import RecordError, RunError
from rnnbench.grid.experiment import Repeats
from rnnbench.grid.point import digest_of_round
from rnnbench.records.rounds import Result, read_results
from rnnbench.records.store import Place, read_record, record_files, write_json, write_record
from rnnbench.running.round import measure
from tests.conftest import ROOT
from tests.factory import as_run, make_record, put
from tests.factory import replace as with_changes
from tests.running.test_running_train import planned

ENTRY = {"key": "key", "digest": "d"}


def test_the_path_names_the_planned_item(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(rules, "end_with_snakemake", lambda: None)
    folder = tmp_path / "results" / "here" / "mine"
    write_json(folder / "certificates.json", {"key": ENTRY})
    file = str(folder / "certificates" / "key.json")
    arguments = [file, "--digest", "d", "--root", str(tmp_path)]
    _, place, digest = rules.requested(rules.certify, arguments, "certificates")
    assert digest == "d"
    assert (place.root, place.results) == (tmp_path, tmp_path / "results")
    assert (place.site, place.experiment) == ("here", "mine")
    with pytest.raises(RunError, match="certificate key: was planned again"):
        rules.certify([file, "--digest", "other"])
    unplanned = str(folder / "certificates" / "other.json")
    with pytest.raises(RunError, match="certificate other: was planned again"):
        rules.certify([unplanned, "--digest", "d"])


def test_a_round_needs_the_facts_of_its_experiment(place: Place, monkeypatch) -> None:
    """Without them it would be measured without its reference."""
    monkeypatch.setattr(rules, "end_with_snakemake", lambda: None)
    run = as_run(planned())
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(run.line())
    digest = digest_of_round({run.name: run.digest})
    with pytest.raises(RecordError, match="does not exist") as caught:
        rules.round([str(place.folder / f"rounds/{run.round}.json"), "--digest", digest])
    assert caught.value.where.endswith("experiment.json")


@pytest.mark.fault(
    "the file of a round is truncated",
    "detected; made again from the records",
    "run the same command",
)
def test_a_round_writes_its_file_from_its_records(place: Place, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rules, "end_with_snakemake", lambda: None)
    monkeypatch.setattr(rules, "INPUTS", {})
    run = as_run(planned())
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / "plan.jsonl").write_bytes(run.line())
    facts = {"name": "selftest", "title": "t", "about": "", "reference": {}}
    write_json(place.folder / "experiment.json", facts)
    file = place.folder / f"rounds/{run.round}.json"
    digest = digest_of_round({run.name: run.digest})
    arguments = [str(file), "--digest", digest, "--root", str(place.root)]
    assert rules.round(arguments) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"[1/1] {run.name} ") and "s per epoch" in last, last
    (record,) = record_files(place.results)
    assert read_results(file) == {run.name: Result.of(read_record(record))}
    content = file.read_bytes()
    for share in (0.0, 0.5):
        file.write_bytes(content[: int(share * len(content))])
        with pytest.raises(RecordError):
            read_results(file)
        assert rules.round(arguments) == 0
        assert f" {run.round}: nothing to measure" in capsys.readouterr().err
        assert file.read_bytes() == content


@pytest.mark.parametrize("left", ["nothing", "a companion", "a record of other code"])
def test_a_round_has_not_begun_if_none_of_its_runs_has_a_record(place: Place, left: str) -> None:
    """It is then not measured beyond the budget."""
    made = [make_record(repeat=repeat) for repeat in range(2)]
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
    rule = Repeats(least=1, most=3, budget_s=0.1)
    unneeded = rules._unneeded([second.run], place, "", rule, None)
    assert unneeded[second.name].not_needed.is_over_budget
    write_record(place.results, second)
    assert not rules._unneeded([second.run], place, "", rule, None)


def test_each_dataset_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pin = next(iter(pinned(ROOT).items()))
    verified, calls = [], []
    monkeypatch.setattr(rules, "verify", lambda *arguments: verified.append(arguments))
    monkeypatch.setattr(rules, "measure", lambda *_, **options: calls.append(options) or {})
    runs = [planned(f"fake-lstm-{rnn}-cpu_1-fake-s0-r0") for rnn in ("a", "b", "c")]
    for run in runs[:2]:
        run["config"]["dataset"] = {"name": "mine", "path": path}
    rules._data_md5.cache_clear()
    monkeypatch.setattr(rules, "INPUTS", {})
    monkeypatch.setattr(rules, "worker_digest", lambda config: "w")
    place = Place(ROOT, tmp_path, "here", "selftest", tmp_path / "timing.lock")
    planned_runs = [as_run(run) for run in runs]
    rules._measure(planned_runs, place, "[1/1]", None, "")
    assert verified == [(ROOT / path, pin, "mine")]
    assert list(calls[0]["pinned_md5"].values()) == [pin.md5, pin.md5, None]


def edit(file: Path) -> None:
    file.write_text("edited")


def replace(file: Path) -> None:
    """With a file of equal content."""
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


@pytest.mark.parametrize(
    ("name", "change"), [("data.npz", replace), ("model.py", edit), ("kernel.py", Path.unlink)]
)
def test_a_file_that_is_edited_while_it_is_read_leaves_no_record(
    place: Place, name: str, change: Callable[[Path], None]
) -> None:
    for file in ("data.npz", "model.py", "kernel.py"):
        (place.root / file).write_text("as it was")
    own = {
        "dataset": {"path": "data.npz"},
        "model": {"function": f"{place.root}/model.py:build"},
        "rnn": {"implementation": f"{place.root}/kernel.py"},
    }
    check = rules.watched("a_round", [own], place.root)
    check()

    def check_once_changed() -> None:
        change(place.root / name)
        check()

    with pytest.raises(RunError, match="changed while it was read; nothing was recorded"):
        measure([as_run(planned())], place, check_once_changed, label="")
    assert len(list(place.results.glob("records/*/*/2*Z.log"))) == 1
    assert not list(place.results.glob("records/*/*/2*Z.json"))
