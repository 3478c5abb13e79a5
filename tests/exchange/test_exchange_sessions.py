"""The sessions of a bundle: what is started within a time limit, and with which packages."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rnnworker import bundle, machine, members, workers
from rnnworker.members import Outcome

GPU = {"name": "gpu", "kind": "gpu", "gpu": "H100", "threads": None}
CPU = {"name": "cpu_1", "kind": "cpu", "threads": 1}
NVIDIA_SMI = f"""#!{sys.executable}
import os, sys, time
with open(os.path.join(os.path.dirname(__file__), "asked"), "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
time.sleep(0.2)
if "compute_mode" in sys.argv[1]:
    print("Default, 80000")
else:
    print("NVIDIA H100 80GB HBM3, 570.86, 81559, 700.00, 1980, GPU-a1, 00000000:10:00.0")
"""


def lay_out(folder: Path, runs: list[dict], certificates: dict | None = None) -> None:
    files = {
        "bundle.json": {"files": {}, "own": {}},
        "experiment.json": {},
        "certificates.json": certificates or {},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "plan.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))


def run_of(name: str, device: dict = CPU, certificate: str | None = None) -> dict:
    build = {"name": "b", "framework": "fake"}
    config = {"device": device, "build": build, "dataset": {}, "limits": {}}
    return {
        **{"name": name, "digest": name, "block": 0, "round": name, "config": config},
        **{"certificate": certificate, "choices": {}, "overrides": {}, "alias": None},
    }


def certificate_of(device: dict = CPU) -> dict:
    place = {"name": device["name"], "device": device, "batches": []}
    return {
        **{"key": "k", "digest": "c", "choices": {}, "overrides": {}},
        "config": run_of("r", device)["config"],
        "implementations": [{"name": "keras", "rnn": {}, "skip": None}],
        "devices": [{**place, "implementations": ["keras"]}],
    }


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("RNNBENCH_TIMING_LOCK", "$PLACE/timing.lock")
    monkeypatch.setattr(bundle.cohorts, "available_bytes", lambda: 10**12)
    return tmp_path / "timing.lock"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Names and limits of what is started: no process, and everything ends at once unless a test
    says otherwise."""
    names: list[tuple[str, float]] = []

    def supervise(members, *_, **options):
        names.extend((member.name, member.limit("x")) for member in members)
        return {member.name: Outcome(seconds=1.0) for member in members}

    monkeypatch.setattr(bundle.rounds, "supervise", supervise)
    return names


@pytest.mark.parametrize("turns", [None, True], ids=["alone", "in turns"])
def test_what_is_left_at_the_end_of_a_session_asks_nvidia_smi_nothing(
    tmp_path: Path, monkeypatch, started, capsys, turns
) -> None:
    """Of 400 runs, each of which asked, by 0.8 s a call, many did so after the end."""
    tools, devices = tmp_path / "tools", tmp_path / "dev"
    tools.mkdir()
    devices.mkdir()
    (tools / "nvidia-smi").write_text(NVIDIA_SMI)
    (tools / "nvidia-smi").chmod(0o755)
    (devices / "nvidia0").touch()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(machine, "DEVICES", str(devices))
    lay_out(tmp_path, [run_of(f"run{n}", {**GPU, "turns": turns}) for n in range(400)])
    assert bundle.main(str(tmp_path), ["--stop-after", "0"]) == 1
    assert "400 runs are left" in capsys.readouterr().out and not started
    asked = (tools / "asked").read_text().splitlines()
    assert len(asked) == 1 and "name,driver" in asked[0], "only the machine's facts"
    # Runs that are started ask how many fit on the card only if they take turns.
    runs = [run_of(f"run{n}", {**GPU, "turns": turns}) for n in range(3)]
    lay_out(tmp_path, runs)
    assert bundle.main(str(tmp_path), ["--stop-after", "600"]) == 0
    assert [name for name, _ in started] == ["run0", "run1", "run2"]
    asked = (tools / "asked").read_text().splitlines()[1:]
    assert sum("compute_mode" in line for line in asked) == (3 if turns else 0)
    assert len(asked) == (4 if turns else 1)


def test_a_session_ends_in_time_although_others_time_on_this_host(
    tmp_path: Path, lock: Path, started, capsys
) -> None:
    lay_out(tmp_path, [run_of("run-s0-r0")])
    session = new_session(tmp_path, "--stop-after", "31")
    with lock.open("a") as held:
        bundle.fcntl.flock(held, bundle.fcntl.LOCK_EX)
        session.deadline = time.monotonic() + 0.5
        begin = time.monotonic()
        done = session.measure(session.runs, {"run-s0-r0"})
    assert not done and not started
    assert 0.4 < time.monotonic() - begin < 20
    assert new_session(tmp_path).run() == 0 and len(started) == 1


def test_another_user_can_time_after_a_bundle(tmp_path: Path, lock: Path, started) -> None:
    lay_out(tmp_path, [run_of("run-s0-r0")])
    before = os.umask(0o077)
    try:
        assert new_session(tmp_path).run() == 0 and len(started) == 1
    finally:
        os.umask(before)
    assert lock.stat().st_mode & 0o777 == 0o666


def new_session(folder: Path, *arguments: str) -> bundle.Session:
    limit = float(arguments[1]) if arguments else None
    options = {"limit": limit, "again": False, "out": str(folder), "pack": None, "python": []}
    options |= {"no_certificates": False, "site": []}
    return bundle.Session(str(folder), SimpleNamespace(**options), time.monotonic())


def test_a_start_knows_how_long_earlier_starts_took(tmp_path: Path, started, capsys) -> None:
    """A guess of 30 s started certificates that needed more and lost all of their work."""
    for name, seconds in (("certificates/other", 300.0), ("run-s0-r0", 5.0)):
        earlier = tmp_path / "out" / name / "1"
        earlier.mkdir(parents=True)
        text = json.dumps({"seconds": seconds, "digest": "of another plan"})
        (earlier / "outcome.json").write_text(text)
    certificates = {"k": certificate_of(), "other": {**certificate_of(), "digest": "new"}}
    lay_out(tmp_path, [run_of("run-s0-r0", certificate="k")], certificates)
    assert bundle.main(str(tmp_path), ["--stop-after", "200"]) == 1
    assert [name for name, _ in started] == ["run-s0-r0"]
    assert "1 certificates are left" in capsys.readouterr().out
    assert bundle.main(str(tmp_path), ["--stop-after", "400"]) == 0
    assert [name for name, _ in started] == ["run-s0-r0", "certificates/k"]


@pytest.mark.parametrize(
    ("limit", "seconds"), [((), 900.0), ((540,), 135.0), ((100,), 60.0), ((7200,), 900.0)]
)
def test_the_limit_of_a_certificate_follows_the_session(
    tmp_path: Path, started, limit: tuple[int, ...], seconds: float
) -> None:
    lay_out(tmp_path, [run_of("run-s0-r0", certificate="k")], {"k": certificate_of()})
    arguments = [text for each in limit for text in ("--stop-after", str(each))]
    assert bundle.main(str(tmp_path), arguments) == 0
    assert started[0] == ("certificates/k", seconds)


def test_a_certificate_that_hangs_ends_and_is_tried_again_in_a_longer_session_only(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    runs = [run_of(f"run{n}-s0-r0", certificate="k") for n in range(2)]
    lay_out(tmp_path, runs, {"k": certificate_of()})
    worker = tmp_path / "rnnworker"
    worker.mkdir()
    (worker / "__main__.py").write_text(HANGS)
    monkeypatch.setattr(workers, "WORKER", str(worker))
    monkeypatch.setattr(members, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(bundle, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(bundle, "SHARE", 1 / 240)  # 0.5 s of 120
    assert bundle.main(str(tmp_path), ["--stop-after", "120"]) == 1
    output = capsys.readouterr().out
    assert output.count("certificates/k  took 0 s in phase certify_keras and was ended; it ") == 1
    assert output.count("exit code 0") == 2, "the runs were made"
    assert "1 certificates are left" in output
    assert bundle.main(str(tmp_path), ["--stop-after", "120"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "certificates/k  needs a longer --stop-after"
    assert len(list(tmp_path.glob("out/certificates/k/*"))) == 1
    bundle.main(str(tmp_path), ["--stop-after", "240"])
    assert len(list(tmp_path.glob("out/certificates/k/*"))) == 2, "it has 1 s there"


HANGS = """
import json, os, sys, time
with open(sys.argv[-1]) as file:
    job = json.load(file)
if job.get("mode") == "certify":
    event = {"event": "phase_begin", "phase": "certify_keras", "t": 1.0}
    os.write(int(os.environ["RNNWORKER_EVENTS"]), (json.dumps(event) + "\\n").encode())
    time.sleep(3600)
"""


def test_a_run_that_used_up_a_session_comes_last_in_the_next(tmp_path: Path, started) -> None:
    lay_out(tmp_path, [run_of(f"run{n}-s0-r0") for n in range(3)])
    attempt = tmp_path / "out/run0-s0-r0/1"
    attempt.mkdir(parents=True)
    cut = {"seconds": 400.0, "session": 540.0, "phase_seconds": None}
    (attempt / "cut.json").write_text(json.dumps(cut))
    assert bundle.main(str(tmp_path), ["--stop-after", "900"]) == 0
    assert [name for name, _ in started] == ["run1-s0-r0", "run2-s0-r0", "run0-s0-r0"]


def test_what_the_end_of_a_session_cuts_is_noted(tmp_path: Path, monkeypatch) -> None:
    lay_out(tmp_path, [run_of("run-s0-r0")])
    cut = Outcome(cut=True, seconds=3.0)

    def supervise(members, *_, **options):
        return {members[0].name: cut}

    monkeypatch.setattr(bundle.rounds, "supervise", supervise)
    assert bundle.main(str(tmp_path), ["--stop-after", "60"]) == 1
    (note,) = tmp_path.glob("out/run-s0-r0/*/cut.json")
    assert json.loads(note.read_text()) == {"seconds": 3.0, "session": 60.0, "phase_seconds": None}


def test_a_companion_without_memory_is_not_said_to_be_repeated(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    names = ["reference-s0-r0", "run-s0-r0"]
    lay_out(tmp_path, [run_of(name) for name in names])
    session = new_session(tmp_path)
    outcomes = {name: Outcome(seconds=1.0) for name in names}
    outcomes[names[0]] = Outcome(seconds=1.0, exit_code=-6, log_tail="std::bad_alloc")
    monkeypatch.setattr(bundle.rounds, "supervise", lambda *members, **options: outcomes)
    assert session.measure(session.runs, {names[1]}) == {names[1]}
    assert capsys.readouterr().out == f"[2/2] {names[1]}  exit code 0, 1 s\n"


@pytest.mark.parametrize(
    ("without", "together"),
    [("a", [["a", "b", "c"]]), ("b", [["a", "b"]])],
    ids=["the reference", "another run"],
)
def test_a_run_that_is_left_is_measured_with_what_it_is_compared_with(
    tmp_path: Path, monkeypatch, without: str, together: list[list[str]]
) -> None:
    """Without the reference, the others are not its companions: they are measured again, too."""
    runs = [{**run_of(rnn), "round": "r", "choices": {"rnn": rnn}} for rnn in "cba"]
    lay_out(tmp_path, runs)
    (tmp_path / "experiment.json").write_text(json.dumps({"reference": {"rnn": "a"}}))
    session = new_session(tmp_path)
    monkeypatch.setattr(session, "done", lambda run: run["name"] != without)
    monkeypatch.setattr(session, "check_builds", lambda done: None)
    measured = []

    def supervise(members, *_, **__):
        measured.append(sorted(member.name for member in members))
        return {member.name: Outcome(seconds=1.0) for member in members}

    monkeypatch.setattr(bundle.rounds, "supervise", supervise)
    assert session.run() == 0
    assert measured == together
    (file, *_) = tmp_path.glob("out/b/*/outcome.json")
    companions = {"a": [], "b": ["a"]}[without]
    assert json.loads(file.read_text())["round"]["companions"] == companions


def test_a_run_that_fails_again_is_repeated_once(tmp_path: Path, monkeypatch) -> None:
    lay_out(tmp_path, [{**run_of(f"run{n}-s0-r0"), "round": "r"} for n in range(2)])
    measured = []

    def supervise(members, *_, **__):
        measured.append(len(members))
        return {member.name: Outcome(seconds=1.0, exit_code=3) for member in members}

    monkeypatch.setattr(bundle.rounds, "supervise", supervise)
    assert bundle.main(str(tmp_path), []) == 0
    assert bundle.main(str(tmp_path), ["--again"]) == 0
    assert measured == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--python", "typo=/usr/bin/python3"], "typo=/usr/bin/python3 is not BUILD=PATH with a"),
        (["--python", "/usr/bin/python3"], "with a build of this bundle (b)"),
        (["--site", "typo=/tmp"], "typo=/tmp is not BUILD=PATH with a build of this bundle (b)"),
        (["--site", "b=/no/such/folder"], "--site b=/no/such/folder is not a folder"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(
    tmp_path: Path, started, capsys, arguments: list[str], message: str
) -> None:
    lay_out(tmp_path, [run_of("run-s0-r0")])
    with pytest.raises(SystemExit) as ended:
        bundle.main(str(tmp_path), arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert not started and not (tmp_path / "out").exists()


def test_packages_in_a_folder_beside_the_python_are_found(tmp_path: Path, capsys) -> None:
    """This interpreter without its site-packages has no NumPy."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    worker = "import json, os, sys, numpy\nassert '/of/this/shell' not in sys.path\n"
    lay_out(tmp_path, [run_of("run-s0-r0")])
    arguments = ["--python", f"b={python}"]
    assert bundle.main(str(tmp_path), arguments) == 3
    output = capsys.readouterr().out
    assert "has no numpy; install it there" in output and "--site b=FOLDER" in output
    (tmp_path / "rnnworker").mkdir()
    (tmp_path / "rnnworker/__main__.py").write_text(worker)
    site = Path(pytest.importorskip("numpy").__file__).parents[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "WORKER", str(tmp_path / "rnnworker"))
        patch.setenv("PYTHONPATH", "/of/this/shell")
        sites = ["--site", f"b={tmp_path}", "--site", f"b={site}"]
        assert bundle.main(str(tmp_path), [*arguments, *sites]) == 0
    assert "exit code 0" in capsys.readouterr().out
    (job,) = tmp_path.glob("out/run-s0-r0/*/job.json")
    variables = json.loads(job.read_text())["config"]["build"]["environment"]
    assert variables == {"PYTHONPATH": f"{tmp_path}:{site}"}
