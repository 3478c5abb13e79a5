"""`rnnbench retry` and `rnnbench gc`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rnnbench import locks
from rnnbench.commands import results as commands
from rnnbench.errors import ConfigError, RunError
from rnnbench.records.record import Reason, Verdict
from rnnbench.records.rounds import NotNeeded, Result, results_in, write_results
from rnnbench.records.store import record_files, write_json, write_record
from tests.factory import make_late, make_record, put, replace

VERDICTS = {"a-keras-s0-r0": "clean", "a-block-s0-r0": "void", "a-block-s0-r1": "suspect"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, verdict in VERDICTS.items():
        made = make_record(name=name, site="here", verdict=verdict, repeat=int(name[-1]))
        file = put(tmp_path / "results", made)
    return file.parents[1]


def retry(folder: Path, *names: str) -> set[str]:
    """Runs the command and returns the names of the runs whose records were set aside."""
    results = folder.parents[1]
    assert commands.retry([folder.name, *names, "--site", "here", "--results", str(results)]) == 0
    remaining, _ = results_in(folder)
    marked = {path.parent.name for path in results.glob("records/*/*/*.retried")}
    assert marked == set(VERDICTS) - set(remaining)
    assert {path.parent.name for path in record_files(results)} == set(remaining)
    return marked


@pytest.mark.parametrize(
    ("names", "marked"),
    [
        ([], {"a-block-s0-r0"}),
        (["a-keras-s0-r0"], {"a-keras-s0-r0"}),
        (["a-block-*"], {"a-block-s0-r0", "a-block-s0-r1"}),
        (["*-r0", "a-keras-s0-r0"], {"a-keras-s0-r0", "a-block-s0-r0"}),
    ],
)
def test_retry_marks_void_or_named_runs(folder: Path, names: list[str], marked: set, capsys):
    assert retry(folder, *names) == marked
    output = capsys.readouterr().out
    assert output.startswith(f"The next start measures {len(marked)} of 3 runs again, next to ")


def test_retry_without_a_void_run_says_how_to_name_the_others(folder: Path, capsys) -> None:
    retry(folder)
    capsys.readouterr()
    retry(folder)
    assert "0 of 2 runs again: none is void, and '*' names all." in capsys.readouterr().out


def test_all_records_of_a_run_at_a_site_are_set_aside(folder: Path) -> None:
    """Otherwise an older one would be adopted. Others and companions are left."""
    results = folder.parents[1]
    name = "a-block-s0-r0"
    newest = make_record(name=name, site="here", verdict="void")
    older = replace(newest, started="20200101T000000_000000Z")
    companion = replace(newest.round, companion=True)
    others = [
        replace(newest, started="20200102T000000_000000Z", experiment="other"),
        replace(newest, started="20200103T000000_000000Z", site="there"),
        replace(newest, started="20200104T000000_000000Z", round=companion),
    ]
    for record in (older, *others):
        write_record(results, record)
    assert commands.retry(["quick", "--site", "here", "--results", str(results)]) == 0
    aside = {path.stem for path in results.glob(f"records/*/{name}/*.retried")}
    assert aside == {newest.started, older.started}
    assert record_files(results, name=name) == [results / record.path for record in others]


def test_runs_of_a_damaged_round_have_no_result_without_a_plan(folder: Path) -> None:
    file = folder / "rounds/round-s0-r1.json"
    file.write_text("[")
    with pytest.raises(ConfigError, match="no finished run is named 'a-block-s0-r1'"):
        retry(folder, "a-block-s0-r1")
    assert file.read_text() == "["


@pytest.mark.parametrize("names", [(), ("b-*",)])
def test_records_of_a_round_that_failed_are_set_aside(
    folder: Path, names: tuple[str, ...], capsys
) -> None:
    """The next start would adopt them, although they are void or named."""
    results = folder.parents[1]
    made = make_record(name="b-keras-s0-r0", site="here", verdict="void")
    other = replace(made, run=replace(made.run, digest="f" * 64), started="20200101T000000_000000Z")
    for record in (made, other):
        write_record(results, record)
    unmeasured = make_record(name="b-block-s0-r0").run
    (folder / "plan.jsonl").write_bytes(made.run.line() + unmeasured.line())
    assert commands.retry([folder.name, *names, "--site", "here", "--results", str(results)]) == 0
    aside = {path.stem for path in results.glob(f"records/*/{made.name}/*.retried")}
    assert made.started in aside
    assert f"measures {1 if names else 2} of 4 runs again" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no finished run is named 'b-block-s0-r0'"):
        retry(folder, unmeasured.name)


@pytest.mark.parametrize("repeat", [1, 2])
def test_repeats_that_were_not_needed_are_decided_about_again(
    folder: Path, repeat: int, capsys
) -> None:
    """Those of the configuration that is measured again, or one that is named itself."""
    why = NotNeeded(spent=2.0, budget=1.0)
    for name in ("a-block-s0-r2", "a-keras-s0-r2"):
        unneeded = Result(record=None, digest="d", not_needed=why)
        write_results(folder / f"rounds/{name}.json", {name: unneeded})
    name = f"a-block-s0-r{repeat}"
    arguments = [name, "--site", "here", "--results", str(folder.parents[1])]
    assert commands.retry([folder.name, *arguments]) == 0
    left, _ = results_in(folder)
    assert set(left) == {*VERDICTS, "a-keras-s0-r2"} - {name}
    first, second = capsys.readouterr().out.splitlines()
    assert f"measures {2 - repeat} of 5 runs again" in first
    assert second == "Not needed so far, and decided about again: 1 of 5 runs."


def test_the_certificate_that_a_run_failed_is_made_again(folder: Path) -> None:
    results = folder.parents[1]
    reason = Reason("not_certified", "not trained", "correct the model.")
    for key, verdict in (("mine", Verdict("void", (reason,))), ("other", "void")):
        record = make_record(name=f"{key}-s0-r0", site="here", verdict=verdict)
        put(results, replace(record, run=replace(record.run, certificate=key)))
        write_json(folder / f"certificates/{key}.json", {})
    assert commands.retry([folder.name, "--site", "here", "--results", str(results)]) == 0
    assert [file.stem for file in folder.glob("certificates/*.json")] == ["other"]


def test_an_unknown_name_or_experiment_changes_nothing(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run is named 'b-\\*'"):
        retry(folder, "a-keras-s0-r0", "b-*")
    assert set(results_in(folder)[0]) == set(VERDICTS)
    assert not list(folder.parents[1].glob("records/*/*/*.retried"))
    with pytest.raises(ConfigError, match="has no finished run"):
        commands.retry(["absent", "--site", "here", "--results", str(folder.parents[1])])


def test_nothing_changes_while_the_results_are_locked(folder: Path) -> None:
    results = folder.parents[1]
    before = sorted(results.rglob("*"))
    message = r"is in use by another process \(process 7\); nothing was changed"
    with locks.locked(results / ".lock", "process 7"):
        with pytest.raises(RunError, match=message):
            commands.retry([folder.name, "--site", "here", "--results", str(results)])
        with pytest.raises(RunError, match=message):
            commands.gc(["--root", str(results.parent), "--yes"])
    assert [path for path in sorted(results.rglob("*")) if path.name != ".lock"] == before


def age(folder: Path) -> None:
    long_ago = time.time() - 10 * commands.YOUNG_SECONDS
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A record with its events and log, and the files of killed attempts."""
    results = tmp_path / "results"
    record = make_record()
    folder = write_record(results, record).parent
    for name in (
        *(f"{record.started}.log", f"{record.started}.events.jsonl"),
        *("20200101T000000_000000Z.log", "20200101T000000_000000Z.job.json"),
        *("20210101T000000_000000Z.unreadable", "20210101T000000_000000Z.log"),
        *("20220101T000000_000000Z.retried", "20220101T000000_000000Z.events.jsonl"),
        ".20200101T000000_000000Z.json.abc123",
    ):
        (folder / name).write_text("x")
    (results / "envs/torch-01234567/bin").mkdir(parents=True)
    (results / "envs/torch-01234567.json").write_text("{}")
    (results / "envs/torch-01234567.lock").write_text("")
    age(tmp_path)
    return results


def test_gc_asks_and_then_removes_unused_files(results: Path, capsys) -> None:
    before = sorted(results.rglob("*"))
    assert commands.gc(["--root", str(results.parent)]) == 0
    assert "add --yes" in capsys.readouterr().out
    assert [p for p in sorted(results.rglob("*")) if p.name != ".lock"] == before
    assert commands.gc(["--root", str(results.parent), "--yes"]) == 0
    left = {path.name for path in results.rglob("*") if path.is_file()}
    record = make_record()
    assert left == {
        *(f"{record.started}{end}" for end in (".json", ".log", ".events.jsonl")),
        *("20210101T000000_000000Z.unreadable", "20210101T000000_000000Z.log"),
        *("20220101T000000_000000Z.retried", "20220101T000000_000000Z.events.jsonl"),
        *("torch-01234567.lock", ".lock"),
    }
    commands.gc(["--root", str(results.parent)])
    assert "nothing to remove" in capsys.readouterr().out


def test_gc_keeps_young_files_and_used_environments(results: Path, monkeypatch) -> None:
    for path in results.rglob("*"):
        os.utime(path)

    class Used:
        key = "torch-01234567"

    monkeypatch.setattr(commands, "pins_of", lambda build, root: Used)
    (results / "box/quick").mkdir(parents=True)
    (results / "box/quick/plan.jsonl").write_bytes(make_record().run.line())
    assert list(commands.unused(results.parent, results)) == []


def test_gc_keeps_the_environments_of_another_project(tmp_path: Path, capsys) -> None:
    """A linked folder of environments was emptied: only this project's plans were asked."""
    kept = tmp_path / "other/results/envs/tf-12345678"
    kept.mkdir(parents=True)
    own = tmp_path / "own/results"
    own.mkdir(parents=True)
    (own / "envs").symlink_to(kept.parent)
    assert commands.gc(["--root", str(own.parent), "--yes"]) == 0
    out, error = capsys.readouterr()
    assert kept.is_dir() and "nothing to remove" in out
    assert f"is a link to {kept.parent}: its environments are kept." in error


def test_gc_keeps_companions(tmp_path: Path) -> None:
    """Even those that no round names: records, their events and logs are never removed."""
    results = tmp_path / "results"
    for record in make_late():
        file = write_record(results, record)
        for end in (".log", ".events.jsonl"):
            file.with_suffix(end).write_text("x")
    age(results)
    assert list(commands.unused(tmp_path, results)) == []
