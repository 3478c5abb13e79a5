"""kill -9 at random moments: no finished record changes, and the same command continues."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rnnbench.records.store import read_record
from rnnbench.workflow import signal_handling
from tests.conftest import Project, descendants, wait_until, working_in
from tests.factory import phase_of
from tests.faults.matrix import rows

MOMENTS = 20 if os.environ.get("RNNBENCH_FAULTS") == "all" else 1
RUNS = MOMENTS + 1
SAME = "run the same command"
KILLED = {
    "worker": ("a worker", "its run has no record; the other runs of its round do"),
    "controller": ("`rnnbench rounds`", "its workers die with it; at most one round is lost"),
    "snakemake": ("Snakemake", "controllers and workers die with it"),
}


def start(project: Project) -> subprocess.Popen:
    """Starts Snakemake with its output in a file, since the test does not read a pipe."""
    with (project.folder / "out").open("ab") as out:
        return subprocess.Popen(
            project.command("--until", "rounds", experiment="killed"),
            cwd=project.folder,
            env=project.environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def victim(kind: str, snakemake: int, known: set[int]) -> int | None:
    """A process of that kind that is not in `known`."""
    if kind == "snakemake":
        return None if snakemake in known else snakemake
    end = {"worker": ".job.json", "controller": "rounds"}[kind]
    running = descendants(snakemake).items()
    found = (pid for pid, words in running if any(word.endswith(end) for word in words))
    return next((pid for pid in found if pid not in known), None)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=pytest.mark.fault(f"kill -9 of {who}, {MOMENTS} moments", what, SAME)
        )
        for kind, (who, what) in KILLED.items()
    ],
)
def test_killed_at_random_moments(project: Project, kind: str) -> None:
    (project.conf / "experiment/killed.yaml").write_text(
        "title: killed\ngrids: ['model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1"
        f" model.epochs=2 repeat=range({RUNS})']\nreference: {{rnn: fake_fast}}\n"
    )
    if kind != "snakemake":  # which may also be killed while it provides the data
        project.prepare()
    generator = random.Random(f"{kind} 7")
    kept: dict[Path, bytes] = {}
    killed: set[int] = set()
    process = start(project)
    try:
        for moment in range(MOMENTS):
            while (pid := victim(kind, process.pid, killed)) is None:
                if process.poll() is not None and kind != "snakemake":
                    process = start(project)
                time.sleep(0.01)
            # Snakemake takes some seconds to plan; a round takes about one second.
            time.sleep(generator.uniform(0, 9.0 if kind == "snakemake" else 1.0))
            kill(pid)
            killed.add(pid)
            if kind == "snakemake":
                process.wait()
                ended = f"moment {moment}: end of all processes"
                wait_until(lambda: not working_in(project.folder), 15, ended)
                process = start(project)
            kept = intact(project, kept)
        assert process.wait(timeout=300) in ((0,) if kind == "snakemake" else (0, 1))
    finally:
        kill(process.pid)
        process.wait()
    done = project.snakemake("--until", "rounds", experiment="killed")
    assert done.returncode == 0, done.stdout + done.stderr
    intact(project, kept)
    assert len(project.finished("killed")) == 2 * RUNS
    assert {read_record(path).run.repeat for path in project.records()} == set(range(RUNS))


@pytest.mark.fault(
    f"kill -9 of the importer of a loop over rounds, {MOMENTS} moments",
    "its workers die with it; the other rounds start workers of their own",
    SAME,
)
def test_importer_killed_at_random_moments(project: Project) -> None:
    project.prepare()
    generator = random.Random("importer 7")
    kept: dict[Path, bytes] = {}
    for moment in range(MOMENTS):
        name = f"importer_{moment}"
        (project.conf / f"experiment/{name}.yaml").write_text(
            "title: killed\ngrids: ['model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1"
            f" model.epochs={moment + 2} repeat=range(2)']\nreference: {{rnn: fake_fast}}\n"
        )
        process = project.start("--until", "rounds", experiment=name)
        wait_until(lambda: importer(process.pid), 60, "the importer")  # noqa: B023
        time.sleep(generator.uniform(0, 4.0))
        kill(importer(process.pid))
        out, _ = process.communicate(timeout=600)
        assert process.returncode in (0, 1), out
        kept = intact(project, kept)
        if process.returncode:
            done = project.snakemake("--until", "rounds", experiment=name)
            assert done.returncode == 0, done.stdout + done.stderr
            kept = intact(project, kept)
        assert len(project.finished(name)) == 4
    assert not working_in(project.folder)


def importer(snakemake: int) -> int | None:
    """The importer of a loop over rounds, from which the others with its command are forked."""
    running = descendants(snakemake).items()
    return min((pid for pid, command in running if "--import" in command), default=None)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself, which is fine
        os.kill(pid, signal.SIGKILL)


def intact(project: Project, before: dict[Path, bytes]) -> dict[Path, bytes]:
    """All records; asserts that they are readable and that those of `before` are unchanged."""
    for path, content in before.items():
        assert path.read_bytes() == content, path
    contents = {path: path.read_bytes() for path in project.records()}
    for path in contents:
        read_record(path)
    return contents


MANY = 2000
# Fewer for Ctrl-C unless all faults are tested, because planning 2,000 runs takes long.
SIGNALS = {
    "SIGTERM": (signal.SIGTERM, MANY),
    "Ctrl-C": (signal.SIGINT, MANY if MOMENTS == 20 else 100),
}


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@rows(
    "number many",
    SIGNALS,
    "{} to Snakemake only, 2,000 jobs ready",
    "all processes end in under 10 s",
    SAME,
)
def test_ends_soon_with_many_jobs_ready(project: Project, number: int, many: int) -> None:
    project.prepare()
    (project.conf / "experiment/many.yaml").write_text(
        "title: many\ngrids: ['model=fake build=fake rnn=fake_fast device=cpu_1"
        f" repeat=range({many})']\n"
    )
    process = project.start(experiment="many")
    wait_until(lambda: project.records(), 600, "a record")
    wait_until(lambda: victim("worker", process.pid, set()), 20, "the next worker")
    before = intact(project, {})
    # A round of one run starts no importer: it was forked from the workflow's.
    assert "before_fork" in phase_of(read_record(next(iter(before))), "import").facts
    # Without the handler, Snakemake waits for the jobs, which take half an hour, or for ever.
    assert signal_handling.SIGTERM_SECONDS < 8
    running = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number, out
    assert not working_in(project.folder)
    assert running and not list(filter(is_alive, running))
    assert f"of {many} rounds are finished; the same command continues." in out
    assert "Traceback" not in out
    intact(project, before)
