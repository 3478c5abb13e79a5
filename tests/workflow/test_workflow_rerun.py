"""Which runs are measured again, and which are not."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from tests.conftest import Project, wait_until


def names(records: list[Path]) -> list[str]:
    return sorted(path.parent.name for path in records)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def again(project: Project, *arguments: str) -> str:
    """What Snakemake prints, which must succeed."""
    done = project.snakemake(*arguments, experiment="small")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_only_what_changed_is_measured_again(small: Project) -> None:
    measured, before = names(small.records()), contents(small.folder / "results")
    for file in (small.folder / "conf/config.yaml", small.conf / "rnn/fake_fast.yaml"):
        file.write_text("# only a comment\n" + file.read_text())
    os.utime(small.folder / "data/digits.npz")
    assert "Nothing to be done" in again(small), "in a folder that was copied, too"
    assert names(small.records()) == measured

    changed = small.conf / "rnn/fake_fast.yaml"
    changed.write_text(changed.read_text().replace("epoch_seconds: 0.10", "epoch_seconds: 0.12"))
    finished = small.finished("small")
    kept, chosen = (name for name in finished if "fake_middle" in name)
    retried = small.rnnbench("retry", "small", chosen)
    assert retried.returncode == 0, retried.stderr
    again(small)
    # The changed runs take turns with the reference, of which one earlier record is kept.
    assert names(small.records()) == sorted([*measured, *(set(measured) - {chosen})])
    aside = (small.folder / "results" / finished[chosen].record).with_suffix(".retried")
    assert aside.read_bytes() == before[small.folder / "results" / finished[chosen].record]
    again_finished = small.finished("small")
    assert again_finished[kept] == finished[kept]
    assert again_finished[chosen].started > finished[chosen].started
    records = [read_record(path) for path in small.records()]
    companions = {record.name for record in records if record.round.companion}
    assert companions == {kept}
    assert "Nothing to be done" in again(small)
    text = again(small, "--forcerun", "rounds")
    assert "every run is already measured; to repeat one: rnnbench retry small NAME" in text


def test_every_file_of_a_report_is_made_again(small: Project) -> None:
    report = small.folder / "reports/small"
    files = sorted(path for path in report.rglob("*") if path.is_file() and path.name[0] != ".")
    for file in (report / "figures/preview.png", report / "tables/calls.csv", report / "card.json"):
        assert file in files
        file.rename(small.folder / "aside")
        dry = again(small, "-n", "--quiet", "host")
        assert re.search(r"^report +1$", dry, re.MULTILINE), file
        (small.folder / "aside").rename(file)
    assert "Nothing to be done" in again(small, "-n")
    (report / "card.json").unlink()
    shutil.rmtree(report / "figures")
    again(small)
    assert sorted(path for path in files if path.is_file()) == files
    assert "Nothing to be done" in again(small)


@pytest.mark.fault(
    "a record of a finished round is damaged or missing, followed by a dry run",
    "-n, --lint and --report change no file; a real run measures again",
    "run the same command",
)
def test_only_a_real_run_repairs_a_damaged_round(small: Project) -> None:
    results = small.folder / "results"
    finished = small.finished("small")
    truncated, missing, *intact = finished
    record = results / finished[truncated].record
    record.write_bytes(record.read_bytes()[:-100])
    (results / finished[missing].record).unlink()
    damaged = small.rounds("small")[1]
    damaged.write_text("[]")
    before = contents(results)
    dry = again(small, "-n", "--quiet", "host")
    assert set(re.findall(r"^rounds +(\d+)$", dry, re.MULTILINE)) == {"1"}
    assert "measured again" in dry and truncated in dry
    assert f"{damaged.name}: is not the file of a round" in dry
    again(small, "--report", "page.html")
    small.snakemake("--lint", experiment="small")
    assert contents(results) == before

    again(small)
    assert record.with_suffix(".unreadable").exists(), "a damaged record is never deleted"
    repaired = small.finished("small")
    assert set(repaired) == set(finished)
    assert all(result.is_valid(results, None) for result in repaired.values())
    assert all(repaired[name] == finished[name] for name in intact)
    assert "Nothing to be done" in again(small)


@pytest.mark.fault(
    "two Snakemake processes at once",
    "the second ends with a one-line error, the first continues",
    "wait for the first",
)
def test_a_second_snakemake_ends_at_once(project: Project) -> None:
    first = project.start("--until", "rounds", experiment="small")
    plans = "results/*/small/plan.jsonl"  # written when the folder is locked
    wait_until(lambda: list(project.folder.glob(plans)), 60, "the plan")
    second = project.snakemake(experiment="small")
    assert second.returncode == 1
    assert "is in use by another process" in second.stderr
    assert "Traceback" not in second.stderr
    out, _ = first.communicate(timeout=120)
    assert first.returncode == 0, out
    assert len(project.records()) == 4
