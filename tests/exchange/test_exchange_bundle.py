"""A bundle measures with Python alone and what it brings back is judged like any other run."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnworker.bundle_process import NEEDED
from rnnworker.frameworks import FRAMEWORKS
from tests.conftest import Project, make_project


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Path]:
    project = make_project(tmp_path_factory.mktemp("home"))
    folder = tmp_path_factory.mktemp("away") / "bundle"
    made = project.rnnbench(
        "bundle", "experiment=small", "-o", str(folder), "--conf", str(project.conf)
    )
    assert made.returncode == 0, made.stderr
    return project, folder


def with_a_probe(bundle: Path, folder: Path) -> Path:
    """A copy of the bundle with a probe that is to be made; there, the fake framework fails."""
    shutil.copytree(bundle, folder, ignore=shutil.ignore_patterns("out"))
    runs = [json.loads(line) for line in (folder / "plan.jsonl").read_text().splitlines()]
    config = {name: runs[0]["config"][name] for name in ("device", "build")}
    key, choices = "cpu_1-fake", {"device": "cpu_1", "build": "fake"}
    probe = {"key": key, "digest": "d", "choices": choices, "overrides": {}, "config": config}
    lines = [json.dumps({**one, "probe": key}) + "\n" for one in runs]
    changed = {
        "plan.jsonl": "".join(lines),
        "probes.json": json.dumps({key: {**probe, "models": []}}),
    }
    about = json.loads((folder / "bundle.json").read_text())
    for name, text in changed.items():
        (folder / name).write_text(text)
        about["files"][name] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(about))
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Starts the bundle with an environment that leads nowhere near this project, and a timing
    lock of its own: nothing is measured."""
    return subprocess.run(
        [sys.executable, "-I", str(folder / "run.py"), *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={
            "PATH": "/usr/bin:/bin",
            "RNNBENCH_TIMING_LOCK": str(folder.parent / "timing.lock"),
        },
    )


def test_bundle_is_run_resumed_and_imported(bundled: tuple[Project, Path]) -> None:
    project, folder = bundled
    stopped = run(folder, "--limit", "0.001")
    assert stopped.returncode == 1 and "runs are left" in stopped.stdout
    first = len(list(folder.glob("out/*/*/outcome.json")))
    assert first < 4
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 4

    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    records = [read_record(path) for path in project.records()]
    assert len(records) == 4
    assert {record.verdict.status for record in records} <= {"clean", "suspect"}
    assert all(len(record.epochs) == 5 for record in records)
    by_round: dict[str, list[Record]] = {}
    for record in records:
        by_round.setdefault(record.round["id"], []).append(record)
    assert len(by_round) == 2, "those of a repeat took turns"
    for members in by_round.values():
        assert {record.choices["rnn"] for record in members} == {"fake_middle", "fake_fast"}
        effect = {record.choices["rnn"]: record.round["effect"] for record in members}
        assert effect["fake_middle"] - effect["fake_fast"] == pytest.approx(math.log(2), abs=0.1)
    again = project.rnnbench("import", str(folder))
    assert again.returncode == 0 and "0 new files" in again.stdout


def test_a_changed_worker_is_not_run(bundled: tuple[Project, Path], tmp_path: Path) -> None:
    _, folder = bundled
    target = folder / "rnnworker" / "events.py"
    before = target.read_text()
    target.write_text(before + "\n# changed on the way\n")
    try:
        done = run(folder)
        assert done.returncode != 0 and "rnnworker/events.py is not what was packed" in done.stderr
    finally:
        target.write_text(before)


def test_an_outcome_of_another_plan_is_refused(bundled: tuple[Project, Path]) -> None:
    project, folder = bundled
    run(folder)
    path = next(folder.glob("out/*/*/outcome.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "digest": "0" * 64}))
    try:
        refused = project.rnnbench("import", str(folder))
        assert refused.returncode == 1 and "another plan" in refused.stderr
    finally:
        path.write_text(before)


def test_a_run_is_held_to_its_limit_of_memory(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    grid = "model=fake build=fake rnn=fake_fast device=cpu_1 rnn.fake.fault=eat_native"
    (project.conf / "experiment/eats.yaml").write_text(
        f"title: x\ngrids: ['{grid} limits.memory_bytes=536870912']\n"
    )
    folder = tmp_path / "bundle"
    made = project.rnnbench(
        "bundle", "experiment=eats", "-o", str(folder), "--conf", str(project.conf)
    )
    assert made.returncode == 0, made.stderr
    assert run(folder).returncode == 0
    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    (record,) = map(read_record, project.records())
    assert record.verdict.reasons[0].code == "out_of_memory"


def test_an_experiment_in_two_bundles(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    for repeat in ("1", "0", "1"):
        folder = tmp_path / repeat
        if not folder.exists():
            made = project.rnnbench(
                *("bundle", "small", "-o", str(folder), "--conf", str(project.conf)),
                *("--overrides", f"repeat={repeat}"),
            )
            assert made.returncode == 0, made.stderr
            assert run(folder).returncode == 0
        assert project.rnnbench("import", str(folder)).returncode == 0
    (plan,) = (project.folder / "results").glob("*/small/plan.jsonl")
    names = {json.loads(line)["name"] for line in plan.read_text().splitlines()}
    assert names == {path.stem for path in project.pointers("small")} and len(names) == 4


@pytest.fixture(scope="module")
def probed(
    bundled: tuple[Project, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, Path]:
    folder = tmp_path_factory.mktemp("probed")
    return make_project(folder / "home"), with_a_probe(bundled[1], folder / "bundle")


def test_a_probe_follows_the_first_block_and_its_failure_is_no_runs_fault(
    probed: tuple[Project, Path],
) -> None:
    project, folder = probed
    nothing = run(folder, "--stop-after", "0.001")
    assert nothing.returncode == 1 and "4 runs are left" in nothing.stdout
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split()[0] for line in done.stdout.splitlines()]
    assert said == ["[1/4]", "[2/4]", "probes/cpu_1-fake", "[3/4]", "[4/4]"]
    assert "probes/cpu_1-fake  exit code 3" in done.stdout
    assert run(folder).stdout == ""
    again = run(folder, "--again")
    assert again.returncode == 0 and again.stdout.count("exit code 3") == 1
    assert run(folder, "--again", "--no-probes").stdout == ""

    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    (file,) = (project.folder / "results").glob("*/small/probes/*.json")
    probe = json.loads(file.read_text())
    assert probe["machine"] == file.parts[-4] and "in phase import" in probe["error"]
    report = project.rnnbench("report", "small")
    assert report.returncode == 0, report.stderr
    assert "the probe failed" in (project.folder / "reports/small/report.md").read_text()


def test_a_probe_that_does_not_fit_is_left(probed: tuple[Project, Path]) -> None:
    _, folder = probed
    assert run(folder).returncode == 0
    shutil.rmtree(folder / "out" / "probes")
    short = run(folder, "--stop-after", "1")
    assert short.returncode == 1 and "1 certificates and probes are left" in short.stdout
    assert run(folder).returncode == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": "e"}, "another plan"),
        ({"hardware": {"machine": "..", "gpus": []}}, "is no plain name"),
        ({"hardware": []}, "is no outcome of a bundle"),
    ],
)
def test_a_wrong_probe_is_refused(probed: tuple[Project, Path], change: dict, words: str) -> None:
    project, folder = probed
    assert run(folder).returncode == 0
    path = next(folder.glob("out/probes/*/*/outcome.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), **change}))
    try:
        refused = project.rnnbench("import", str(folder))
        assert refused.returncode == 1 and words in refused.stderr
    finally:
        path.write_text(before)


def in_two_builds(folder: Path) -> Path:
    """A bundle of the fake build and of one with torch, in which the tests' Python has no torch."""
    project = make_project(folder / "home")
    (project.conf / "build/lacking.yaml").write_text(
        "framework: keras3_torch\npython: python3\ncarry: null\nenvironment: {}\n"
    )
    (project.conf / "experiment/two.yaml").write_text(
        "title: x\nprobe: false\ngrids:\n"
        "- model=digits_rnn rnn=keras build=lacking model.epochs=1 repeat=0,1\n"
        "- model=fake rnn=fake_fast build=fake\n"
    )
    bundle = folder / "bundle"
    made = project.rnnbench("bundle", "two", "-o", str(bundle), "--conf", str(project.conf))
    assert made.returncode == 0, made.stderr
    return bundle


def python_without_torch(folder: Path) -> Path:
    """This interpreter, with NumPy and without torch and Keras."""
    python = folder / "python"
    hidden = "import sys; sys.modules.update(torch=None, keras=None)"
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(hidden)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/site exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_python_without_the_framework_is_said_once_and_first(tmp_path: Path) -> None:
    folder = in_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    for _ in range(2):  # nothing is settled by having failed once
        done = run(folder, "--python", f"lacking={python}", "--no-certificates")
        assert done.returncode == 3, done.stdout + done.stderr
        first, *others = done.stdout.splitlines()
        assert first.startswith(f"build lacking cannot run: {python} has no torch and no keras;")
        assert "--python lacking=PATH" in first
        assert not any("lacking" in line for line in others), done.stdout
        assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1
        assert not list(folder.glob("out/*lacking*/*/outcome.json"))
    skipped = json.loads((folder / "out/skipped.json").read_text())
    assert len(skipped) == 2 and "has no torch" in next(iter(skipped.values()))
    gone = run(folder, "--python", "lacking=/no/such/python", "--no-certificates")
    assert gone.returncode == 3 and "/no/such/python cannot be started" in gone.stdout


def test_a_framework_that_cannot_be_imported_ends_its_build_alone(tmp_path: Path) -> None:
    folder = in_two_builds(tmp_path)
    python = python_without_torch(tmp_path)
    (tmp_path / "site" / "sitecustomize.py").unlink()
    for name in ("torch", "keras"):
        (tmp_path / "site" / f"{name}.py").write_text("raise OSError('libcudart is not here')")
    done = run(folder, "--python", f"lacking={python}", "--no-certificates")
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.count("build lacking cannot run") == 1
    assert "in phase import: OSError: libcudart is not here" in done.stdout
    assert len(list(folder.glob("out/*lacking*/*/outcome.json"))) == 1
    assert len(list(folder.glob("out/fake*/*/outcome.json"))) == 1


def test_the_exit_codes_are_told(bundled: tuple[Project, Path]) -> None:
    told = run(bundled[1], "--help")
    assert told.returncode == 0 and "3: the runs of a build were skipped" in told.stdout
    assert set(NEEDED) == set(FRAMEWORKS)


def test_what_is_missing_of_a_round_is_measured_beside_the_reference(tmp_path: Path) -> None:
    """As where a start of the bundle was cut short: its outcome is not there."""
    project = make_project(tmp_path / "home")
    folder = tmp_path / "bundle"
    made = project.rnnbench(
        "bundle", "experiment=small", "-o", str(folder), "--conf", str(project.conf)
    )
    assert made.returncode == 0, made.stderr
    assert run(folder).returncode == 0
    (lost,) = folder.glob("out/*fake_fast*-r1/*/outcome.json")
    lost.unlink()
    again = run(folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "the reference once more"
    assert run(folder).returncode == 0
    assert len(list(folder.glob("out/*/*/outcome.json"))) == 5, "all is there"

    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    records = {path: read_record(path) for path in project.records()}
    (companion,) = (path for path, record in records.items() if record.is_companion)
    assert records[companion].choices["rnn"] == "fake_middle"
    (late,) = (
        record
        for record in records.values()
        if not record.is_companion and record.round["id"] == records[companion].round["id"]
    )
    effects = (records[companion].round["effect"], late.round["effect"])
    assert effects[0] - effects[1] == pytest.approx(math.log(2), abs=0.3)
    found = (tmp_path / "home/results").glob("*/small/*-r1.json")
    pointers = [json.loads(path.read_text()) for path in found]
    named = {Path(one["record"]).parent.name: one.get("companions") for one in pointers}
    assert len(named) == 2, "the reference has the run of its own"
    assert named.pop(late.name) == [f"records/{records[companion].key}.json"]
    assert list(named.values()) == [None]


YAML = """
function: mine.py:build
data: {prepare: mine.py:prepare}
batch: 16
epochs: 2
optimizer: {name: adam}
loss: sparse_categorical_crossentropy
recurrent: true
"""
MODEL = """
def prepare(source, config):
    return {name: array[:64] for name, array in source.items()}

def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 8))
    outputs = keras.layers.Dense(10, activation="softmax")(recurrent(4)(inputs))
    return keras.models.Model(inputs, outputs)
"""
KERNEL = """
def make(keras, cell, units, options):
    return keras.layers.LSTM(units, use_cudnn=False, **options)

def to_canonical(layer, values=None):
    values = layer.get_weights() if values is None else values
    return dict(zip(("kernel", "recurrent", "bias"), values))

def from_canonical(layer, arrays):
    layer.set_weights([arrays[name] for name in ("kernel", "recurrent", "bias")])
"""


def test_a_model_and_a_kernel_of_ones_own_travel(tmp_path: Path) -> None:
    project, folder = make_project(tmp_path / "project"), tmp_path / "bundle"
    for home, yaml, python in (
        ("a", YAML, MODEL),
        ("b", "implementation: mine.py\n", KERNEL),
    ):
        (tmp_path / home).mkdir()
        (tmp_path / home / "mine.yaml").write_text(yaml)
        (tmp_path / home / "mine.py").write_text(python)
    grid = f"model={tmp_path}/a/mine.yaml rnn={tmp_path}/b/mine.yaml device=cpu_1 dataset=digits"
    (project.conf / "experiment/mine.yaml").write_text(f"probe: false\ngrids: ['{grid}']\n")
    made = project.rnnbench("bundle", "mine", "-o", str(folder), "--conf", str(project.conf))
    assert made.returncode == 0, made.stderr
    gone = [tmp_path / home / "mine.py" for home in "ab"]
    for file in gone:
        file.rename(file.with_suffix(".gone"))
    done = run(folder)
    assert done.returncode == 0 and "in phase" not in done.stdout, done.stdout
    taken = project.rnnbench("import", str(folder))
    assert taken.returncode == 0, taken.stderr
    (record,) = map(read_record, project.records())
    assert record.verdict.status != "void", record.verdict
    assert len(record.epochs) == 2
    config = record.identity["config"]
    assert config["rnn"]["implementation"] == str(gone[1]), "its identity is what was planned"
    (path,) = project.folder.glob("results/*/mine/certificates/*.json")
    assert json.loads(path.read_text())["implementations"]["mine"]["status"] == "certified"
