"""The disk is full when a command writes: one line, nothing half-written that counts as done, and
the same command continues when there is space."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from rnnbench import cli
from rnnbench.commands import rules
from rnnbench.records.plan_file import PlannedCertificate
from rnnbench.records.store import Place, why_not_tracked
from rnnbench.running import certificates
from rnnworker.members import Outcome
from tests.conftest import Project, copy_of, make_project
from tests.factory import planned_certificate
from tests.faults.matrix import rows
from tests.faults.mounts import filled, small_disk
from tests.running.alone import results, train
from tests.running.test_running_train import planned


def full_when(what: str, happens: str) -> pytest.MarkDecorator:
    """A row of the table of faults."""
    return pytest.mark.fault(f"the disk is full when {what}", happens, "free disk space")


ALL = os.environ.get("RNNBENCH_FAULTS") == "all"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("disk"), "20m") as disk:
        yield disk


def exported(project: Project, folder: Path) -> Project:
    """The project, whose experiment is exported to `folder`."""
    project.environment["EXPORT"] = str(folder / "exported.zip")
    done = project.rnnbench("export", "small", "-o", project.environment["EXPORT"])
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture(scope="module")
def measured(
    disk: Path, measured_small: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """A project on the small disk whose experiment is measured, and exported elsewhere."""
    project = copy_of(measured_small, disk / "project")
    return exported(project, tmp_path_factory.mktemp("elsewhere"))


def has_data(project: Project) -> bool:
    return project.rnnbench("dataset", "digits", "--check").returncode == 0


def is_tracked(project: Project) -> bool:
    files = list(project.folder.glob("results/*/small/tracked/9.json"))
    whole = [file for file in files if why_not_tracked(file) is None]
    return [len(json.loads(file.read_text())) for file in whole] == [2]


def has_page(project: Project) -> bool:
    page = project.folder / "reports/small/report.html"
    return page.exists() and page.read_text().endswith("</html>\n")


def has_export(project: Project) -> bool:
    """The file can be imported."""
    file = project.folder / "small.zip"
    return file.exists() and project.rnnbench("import", "--restore", str(file)).returncode == 0


def has_records(project: Project) -> bool:
    if not project.rounds("small"):
        return False
    root, results = project.folder / "results", project.finished("small").values()
    return len(results) == 4 and all(result.is_valid(root, None) for result in results)


@dataclass(frozen=True)
class Phase:
    """A command, the files that it makes (the first one counts as done), whether they are complete,
    and the free bytes at which it fails, of which the first two are always tried."""

    command: str
    files: tuple[str, ...]
    complete: Callable[[Project], bool]
    free: tuple[int, ...]

    def arguments(self, project: Project) -> list[str]:
        (plan,) = project.folder.glob("results/*/small/plan.jsonl")
        export, site = project.environment["EXPORT"], plan.parent
        a_round = next(site.glob("rounds/*.json"), None)
        return self.command.format(round=a_round, site=site, export=export).split()

    def undo(self, project: Project) -> None:
        for name in self.files:
            for path in list(project.folder.glob(name)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


PHASES = {
    "a data set is provided": Phase(
        "dataset digits",
        ("data/digits.npz", ".dvc/cache"),
        has_data,
        (0, 300_000, 4096, 65536),
    ),
    "runs are logged to MLflow": Phase(
        "track {round} --output {site}/tracked/9.json",
        ("results/*/small/tracked/9.json", "mlflow.db*"),
        is_tracked,
        (0, 65536, 4096, 300_000),
    ),
    "the report is written": Phase(
        "report small",
        ("reports/small/report.html", "reports"),
        has_page,
        (0, 65536, 4096, 32768),
    ),
    "records are exported": Phase(
        "export small -o small.zip", ("small.zip",), has_export, (0, 4096)
    ),
    "records are imported": Phase(
        "import --restore {export}",
        ("results/records", "results/*/small/rounds"),
        has_records,
        (0, 300_000, 4096, 330_000),
    ),
}


@rows(
    "phase",
    {name: (phase,) for name, phase in PHASES.items()},
    "the disk is full when {}",
    "one line; nothing counts as done",
    "free disk space",
)
def test_the_same_command_continues(measured: Project, disk: Path, phase: Phase) -> None:
    assert has_records(measured)
    # A fork would copy MLflow's store, which is to be created on the full disk.
    measured = replace(measured, forks=phase.complete is not is_tracked)
    before = {path: path.read_bytes() for path in (*measured.records(), *measured.rounds("small"))}
    for free in phase.free if ALL else phase.free[:2]:
        phase.undo(measured)
        with filled(disk, free):
            full = measured.rnnbench(*phase.arguments(measured))
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


@pytest.mark.parametrize(
    ("command", "file", "free"),
    [
        pytest.param(
            *("report small --out reports/small", "reports/small/report.html", 0),
            marks=full_when("a report is renewed", "one line; the earlier page stays"),
        ),
        pytest.param(
            *("export small -o small.zip", "small.zip", 4096),
            marks=full_when("an export is renewed", "one line; the earlier export stays"),
        ),
    ],
)
def test_an_earlier_file_stays(
    measured: Project, disk: Path, command: str, file: str, free: int
) -> None:
    assert measured.rnnbench(*command.split()).returncode == 0
    before = (measured.folder / file).read_bytes()
    with filled(disk, free):
        full = measured.rnnbench(*command.split())
        assert full.returncode == 1 and full.stderr.count("\n") == 1, full.stderr
    assert (measured.folder / file).read_bytes() == before
    assert not list(measured.folder.glob(".small.zip.new"))


@full_when("a workflow starts", "no record; the log may end early")
def test_a_workflow_continues(disk: Path) -> None:
    (disk / "other").mkdir()
    project = make_project(disk / "other")
    started = replace(project, forks=False)
    with filled(disk, 1_500_000):  # enough for the data set, not for MLflow's database and a round
        full = started.snakemake(experiment="small")
        assert full.returncode != 0
        assert "No space left" in full.stderr and "Traceback" not in full.stderr
    before = {path: path.read_bytes() for path in project.records()}
    done = project.snakemake(experiment="small")
    assert done.returncode == 0, done.stderr
    assert len(project.records()) == 4
    assert {path: path.read_bytes() for path in before} == before


@full_when("a record is written", "no record")
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
        assert not results(place, planned(name)) and not list(disk.rglob(".*.json.*"))
    assert pages > 3
    again = planned(f"other-s0-r{pages - 1}")
    train(again, place)
    assert results(place, again)


@full_when("a certificate is written", "one line; no file")
def test_a_certificate(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(disk, disk / "results", "here", "mine", tmp_path / "timing.lock")
    planned = msgspec.convert(planned_certificate("d"), PlannedCertificate)
    monkeypatch.setattr(certificates, "certificate_jobs", lambda planned: [])
    monkeypatch.setattr(certificates, "supervise", lambda group, **_: {"": Outcome()})
    content = {"schema": 4, "key": "x" * 9999, "implementations": {}}
    monkeypatch.setattr(certificates, "assembled_certificate", lambda *arguments: content)
    monkeypatch.setattr(rules, "certify", lambda arguments: make())
    file = place.folder / "certificates/key.json"

    def make() -> int:
        certificates.certify(planned, place)
        return 0

    with filled(disk, 4096):
        assert cli.main(["certify"]) == 1
        assert not file.exists() and not list(file.parent.glob(".key*"))
    assert cli.main(["certify"]) == 0
    assert json.loads(file.read_text())["key"] == "x" * 9999


@full_when("a command's log is written", "the command goes on")
def test_a_log_that_cannot_be_written(measured: Project, disk: Path) -> None:
    project = replace(measured, environment={**measured.environment, "RNNBENCH_LOG": "log"})
    with filled(disk, 0):
        failed = project.rnnbench("report", "nothing")
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1 and "Fix: " in failed.stderr
