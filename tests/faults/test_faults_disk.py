"""The disk is full when a command writes: one line, nothing half-written that counts as done, and
the same command continues when there is space."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rnnbench import cli
from rnnbench.commands import rules
from rnnbench.records.store import Place, why_not_tracked
from rnnbench.running import preflights
from rnnworker.members import Outcome
from tests.conftest import Project, copy_of, make_project
from tests.factory import read_pointer
from tests.faults.mounts import filled, small_disk
from tests.running.alone import train
from tests.running.test_running_train import planned

ALL = os.environ.get("RNNBENCH_FAULTS") == "all"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("disk"), "20m") as disk:
        yield disk


@pytest.fixture(scope="module")
def measured(
    disk: Path, measured_small: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """A project on the small disk whose experiment is measured, and exported elsewhere."""
    project = copy_of(measured_small, disk / "project")
    export = str(tmp_path_factory.mktemp("elsewhere") / "small.zip")
    assert project.rnnbench("export", "small", "-o", export).returncode == 0
    project.environment["EXPORT"] = export
    return project


def site(project: Project) -> Path:
    return next((project.folder / "results").glob("*/small"))


def page(project: Project) -> Path:
    return project.folder / "reports/small/report.html"


def exported(project: Project) -> Path:
    return project.folder / "small.zip"


def tracked(project: Project) -> Path:
    return site(project) / "tracked/9.json"


def forget_data(project: Project) -> None:
    (project.folder / "data/digits.npz").unlink()
    shutil.rmtree(project.folder / ".dvc/cache")


def forget_tracking(project: Project) -> None:
    for file in (*project.folder.glob("mlflow.db*"), tracked(project)):
        file.unlink(missing_ok=True)


def lose_records(project: Project) -> None:
    shutil.rmtree(project.folder / "results/records")
    for pointer in project.pointers("small"):
        pointer.unlink()


def has_data(project: Project) -> bool:
    return project.rnnbench("dataset", "digits", "--check").returncode == 0


def is_tracked(project: Project) -> bool:
    file = tracked(project)
    return (
        file.exists() and why_not_tracked(file) is None and len(json.loads(file.read_text())) == 2
    )


def has_page(project: Project) -> bool:
    return page(project).exists() and page(project).read_text().endswith("</html>\n")


def has_export(project: Project) -> bool:
    """The file can be imported."""
    file = exported(project)
    return file.exists() and project.rnnbench("import", "--restore", str(file)).returncode == 0


def has_records(project: Project) -> bool:
    results, pointers = project.folder / "results", project.pointers("small")
    return len(pointers) == 4 and all(read_pointer(results, pointer) for pointer in pointers)


@dataclass(frozen=True)
class Phase:
    """A command, what undoes its outcome, whether that is complete, and the free bytes at which it
    fails; the first two are always tried."""

    arguments: Callable[[Project], list[str]]
    undo: Callable[[Project], object]
    complete: Callable[[Project], bool]
    free: tuple[int, ...]


PHASES = {
    "a data set is provided": Phase(
        lambda p: ["dataset", "digits"], forget_data, has_data, (0, 300_000, 4096, 65536)
    ),
    "runs are logged to MLflow": Phase(
        lambda p: [
            *("track", str(next((site(p) / "rounds").glob("*.json")))),
            *("--output", str(tracked(p))),
        ],
        forget_tracking,
        is_tracked,
        (0, 65536, 4096, 300_000),
    ),
    "the report is written": Phase(
        lambda p: ["report", "small"],
        lambda p: shutil.rmtree(p.folder / "reports"),
        has_page,
        (0, 65536, 4096, 32768),
    ),
    "records are exported": Phase(
        lambda p: ["export", "small", "-o", str(exported(p))],
        lambda p: exported(p).unlink(missing_ok=True),
        has_export,
        (0, 4096),
    ),
    "records are imported": Phase(
        lambda p: ["import", "--restore", p.environment["EXPORT"]],
        lose_records,
        has_records,
        (0, 300_000, 4096, 330_000),
    ),
}


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(
            phase,
            id=name,
            marks=pytest.mark.fault(
                f"the disk is full when {name}",
                "one line; nothing counts as done",
                "free disk space",
            ),
        )
        for name, phase in PHASES.items()
    ],
)
def test_the_same_command_continues(measured: Project, disk: Path, phase: Phase) -> None:
    assert phase.undo is not lose_records or has_records(measured)
    before = {
        path: path.read_bytes() for path in (*measured.records(), *measured.pointers("small"))
    }
    for free in phase.free if ALL else phase.free[:2]:
        phase.undo(measured)
        arguments = phase.arguments(measured)
        with filled(disk, free):
            full = measured.rnnbench(*arguments)
            lines = full.stderr.splitlines()
            # MLflow's store and the file that says so are two places.
            assert 0 < len(lines) <= (2 if phase.complete is is_tracked else 1), full.stderr
            for line in lines:
                assert line.startswith("rnnbench: ") and "Fix: " in line
                assert "No space left" in line or "disk is full" in line
                assert "space" in line.partition("Fix: ")[2], line
        for file in measured.folder.glob("results/**/*.json"):
            json.loads(file.read_text())
        assert not list(measured.folder.glob("results/**/.*.json.*"))
        assert not phase.complete(measured), "it would count as done"

        again = measured.rnnbench(*phase.arguments(measured))
        assert again.returncode == 0 and "Traceback" not in again.stderr, again.stderr
        assert phase.complete(measured)
        assert {path: path.read_bytes() for path in before} == before


@pytest.mark.fault(
    "the disk is full when a report is renewed",
    "one line; the earlier page stays",
    "free disk space",
)
def test_an_earlier_page_stays(measured: Project, disk: Path) -> None:
    before = page(measured).read_bytes()
    with filled(disk, 0):
        full = measured.rnnbench("report", "small", "--out", "reports/small")
        assert full.returncode == 1 and full.stderr.count("\n") == 1, full.stderr
    assert page(measured).read_bytes() == before


@pytest.mark.fault(
    "the disk is full when an export is renewed",
    "one line; the earlier export stays",
    "free disk space",
)
def test_an_earlier_export_stays(measured: Project, disk: Path) -> None:
    words = ("export", "small", "-o", str(exported(measured)))
    assert measured.rnnbench(*words).returncode == 0
    before = exported(measured).read_bytes()
    with filled(disk, 4096):
        full = measured.rnnbench(*words)
        assert full.returncode == 1 and full.stderr.count("\n") == 1, full.stderr
    assert exported(measured).read_bytes() == before
    assert not list(measured.folder.glob(".small.zip.new"))


@pytest.mark.fault(
    "the disk is full when a workflow starts", "no record; the log may end early", "free disk space"
)
def test_a_workflow_continues(disk: Path) -> None:
    (disk / "other").mkdir()
    project = make_project(disk / "other")
    with filled(disk, 1_200_000):  # enough for the data set, not for MLflow's database and a round
        full = project.snakemake(experiment="small")
        assert full.returncode != 0
        assert "No space left" in full.stderr and "Traceback" not in full.stderr
    before = {path: path.read_bytes() for path in project.records()}
    done = project.snakemake(experiment="small")
    assert done.returncode == 0, done.stderr
    assert len(project.records()) == 4
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.fault("the disk is full when a record is written", "no record", "free disk space")
def test_a_record(disk: Path, place: Place) -> None:
    """With no free page of the disk, with one, and so on until a run fits on it."""
    place = replace(place, results=disk / "results")
    first = place.results / "records" / f"{train(planned(), place).key}.json"
    content = first.read_bytes()
    for pages in range(40):
        name = f"other-s0-r{pages}"
        with filled(disk, 4096 * pages):
            try:
                train(planned(name), place)
                break
            except OSError as error:
                assert "free" in cli.FIXES[error.errno]
        assert first.read_bytes() == content
        assert not place.pointer(name).exists() and not list(disk.rglob(".*.json.*"))
    assert pages > 3
    train(planned(f"other-s0-r{pages - 1}"), place)
    assert place.pointer(f"other-s0-r{pages - 1}").exists()


@pytest.mark.parametrize("kind", ["certificate", "probe"])
@pytest.mark.fault(
    "the disk is full when a certificate or a probe is written",
    "one line; no file",
    "free disk space",
)
def test_a_certificate_and_a_probe(
    disk: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(disk, disk / "results", "here", "mine", tmp_path / "timing.lock")
    monkeypatch.setattr(
        preflights.worker, "member", lambda name, *_, **__: SimpleNamespace(name=name)
    )
    monkeypatch.setattr(preflights, "supervise", lambda group: {"": Outcome()})
    monkeypatch.setattr(rules, "probe", lambda arguments: make())
    file = place.folder / f"{kind}s/key.json"

    def make() -> int:
        result = {"key": "x" * 9999}
        preflights.make(kind, "key", place, {"": {"card": None}}, lambda _: result)
        return 0

    with filled(disk, 4096):
        assert cli.main(["probe"]) == 1
        assert not file.exists() and not list(file.parent.glob(".key*"))
    assert cli.main(["probe"]) == 0
    assert json.loads(file.read_text())["key"] == "x" * 9999


@pytest.mark.fault(
    "the disk is full when a command's log is written", "the command goes on", "free disk space"
)
def test_a_log_that_cannot_be_written(measured: Project, disk: Path) -> None:
    project = replace(measured, environment={**measured.environment, "RNNBENCH_LOG": "log"})
    with filled(disk, 0):
        failed = project.rnnbench("report", "nothing")
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1 and "Fix: " in failed.stderr
