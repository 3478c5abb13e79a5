"""kill -9 at random moments: no finished record changes, and the same command goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rnnbench.records.store import read_record
from rnnbench.workflow.signal_handling import children, descendants
from tests.conftest import Project, wait_until
from tests.workflow.test_workflow_rerun import working_in

MOMENTS = 20 if os.environ.get("RNNBENCH_FAULTS") == "all" else 2
RUNS = MOMENTS + 1
ROWS = {
    "worker": ("kill -9 of a worker", "this run has no record; the others of its round go on"),
    "conductor": ("kill -9 of `rnnbench round`", "its workers die with it; other rounds go on"),
    "snakemake": ("kill -9 of Snakemake", "conductor and workers die with it"),
}


def start(project: Project) -> subprocess.Popen:
    """With its output in a file: nobody reads a pipe meanwhile."""
    with (project.folder / "out").open("ab") as out:
        return subprocess.Popen(
            project.command("--until", "round", experiment="killed"),
            cwd=project.folder,
            env=project.environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def victim(kind: str, snakemake: int, known: set[int]) -> int | None:
    """A process of that kind which was not killed before."""
    for pid in [snakemake] if kind == "snakemake" else descendants(snakemake):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        role = {"worker": b".job.json", "conductor": b"\0round\0", "snakemake": b"snakemake"}
        if role[kind] in command and pid not in known:
            return pid
    return None


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=pytest.mark.fault(f"{what}, {MOMENTS} moments", happens, "the same command")
        )
        for kind, (what, happens) in ROWS.items()
    ],
)
def test_killed_at_random_moments(project: Project, kind: str) -> None:
    (project.conf / "experiment/killed.yaml").write_text(
        "title: killed\ngrids: ['model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1"
        f" model.epochs=2 repeat=range({RUNS})']\nreference: {{rnn: fake_fast}}\n"
    )
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
            # Snakemake takes some seconds to plan; a round takes about one.
            time.sleep(generator.uniform(0, 9.0 if kind == "snakemake" else 1.0))
            kill(pid)
            killed.add(pid)
            if kind == "snakemake":
                process.wait()
                wait_until(lambda: not working_in(project.folder), 15, f"moment {moment}: all gone")
                process = start(project)
            kept = intact(project, kept)
        assert process.wait(timeout=300) in ((0,) if kind == "snakemake" else (0, 1))
    finally:
        kill(process.pid)
        process.wait()
    done = project.snakemake("--until", "round", experiment="killed")
    assert done.returncode == 0, done.stdout + done.stderr
    intact(project, kept)
    assert len(project.pointers("killed")) == 2 * RUNS
    assert {read_record(path).repeat for path in project.records()} == set(range(RUNS))


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it ended by itself: a moment too
        os.kill(pid, signal.SIGKILL)


def intact(project: Project, before: dict[Path, bytes]) -> dict[Path, bytes]:
    """The records, all readable, those of `before` unchanged."""
    for path, content in before.items():
        assert path.read_bytes() == content, path
    found = {path: path.read_bytes() for path in project.records()}
    for path in found:
        read_record(path)
    return found


MANY = 2000


def jobs_ready(number: int) -> int:
    """Ctrl-C with as many only where all faults are tried: planning 2,000 runs takes long."""
    return 100 if number == signal.SIGINT and MOMENTS < 20 else MANY


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            marks=pytest.mark.fault(
                f"{words} to Snakemake alone, {jobs_ready(number):,} jobs ready",
                "all of it is gone in under 10 s",
                "the same command",
            ),
        )
        for number, words in ((signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C"))
    ],
)
def test_ends_soon_with_many_jobs_ready(project: Project, number: int) -> None:
    many = jobs_ready(number)
    (project.conf / "experiment/many.yaml").write_text(
        "title: many\ngrids: ['model=fake build=fake rnn=fake_fast device=cpu_1"
        f" repeat=range({many})']\n"
    )
    process = project.start(experiment="many")
    wait_until(lambda: project.records(), 120, "a record")
    wait_until(lambda: victim("worker", process.pid, set()), 20, "the next worker")
    before = intact(project, {})
    begin = time.monotonic()
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - begin < 10
    assert process.returncode == 128 + number, out
    assert not working_in(project.folder) and not children(os.getpid())
    assert f"of {many} runs have a record; the same command continues." in out
    assert "Traceback" not in out
    intact(project, before)
