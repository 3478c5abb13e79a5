"""The estimate of an experiment, before and after some of its runs, and what changed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rnnbench.builds.launcher import Versions
from rnnbench.cli import main
from rnnbench.commands import plan
from rnnbench.records.store import write_record
from rnnworker import machine
from tests.conftest import ROOT, Project
from tests.factory import make_record, put, replace
from tests.grid.conftest import MINE, MINE_YAML

NAME = "fake-lstm-fake_fast-cpu_1-fake-s0-r0"


def test_plan_before_and_after_some_runs(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf)]
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 runs in 2 rounds, 0 done, 4 to do" in output and "a guess" in output

    local = machine.fingerprint()["machine"]
    for repeat, seconds in enumerate((0.5, 0.51)):
        record = make_record(name=f"{NAME[:-1]}{repeat}", machine=local, epoch_seconds=seconds)
        put(project.folder / "results", record, site=local, experiment="small")
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "4 to do" in output, "a record of another identity is not a finished run"
    assert "for 2 runs a guess" in output
    assert "(a guess)" in output, "a run alone in its round says nothing about the spread"


def test_plan_lists_what_changed(project: Project, monkeypatch, capsys) -> None:
    monkeypatch.chdir(project.folder)
    arguments = ["small", "--conf", str(project.conf), "--why"]
    assert plan.plan(arguments) == 0
    assert capsys.readouterr().out == "4 runs without a record\n"
    planned = plan.make_plan("small", [project.folder / "conf", project.conf], project.folder)
    run = planned.runs[NAME]
    config = {**run.config, "model": {**run.config["model"], "epochs": 9}}
    local = machine.fingerprint()["machine"]
    record = make_record(name=NAME, machine=local, identity=run.identity, config=config)
    write_record(project.folder / "results", record)
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    assert "3 runs without a record" in output
    assert f"1 run, such as {NAME}:\n  model.epochs: 9 → 5\n" in output

    file = project.folder / "results" / record.path
    file.write_text("{")
    assert plan.plan(arguments) == 0
    output = capsys.readouterr().out
    fault = f"{file}: cannot be read as JSON"
    assert "3 runs without a record" in output
    assert f"1 run, such as {NAME}:\n  {fault}" in output


def test_the_edited_file_of_a_user_is_named(
    project: Project, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(project.folder)
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "kernel.yaml").write_text(FILES["kernel.yaml"])
    words = ["small", f"rnn={tmp_path}/kernel.yaml", "seed=0", "--conf", str(project.conf)]
    conf = [project.folder / "conf", project.conf]
    planned = plan.make_plan("small", conf, project.folder, overrides=" ".join(words[1:3]))
    local = machine.fingerprint()["machine"]
    for name, run in planned.runs.items():
        identity = {**run.identity, "worker": "0" * 64}
        record = make_record(name=name, machine=local, identity=identity, config=run.config)
        write_record(project.folder / "results", record)
    assert plan.plan([*words, "--why"]) == 0
    assert f"worker changed\n    {tmp_path}/kernel.py was edited" in capsys.readouterr().out


def test_changes_leave_out_the_values_of_digests() -> None:
    before = {"worker": "0" * 64, "config": {"a": {"b": 1}}}
    after = {"worker": "1" * 64, "config": {"a": {"b": 2}, "c": None}, "dataset_md5": None}
    assert plan.changed(before, after) == ["worker changed", "a.b: 1 → 2"]


X, Y = np.zeros((4, 8, 8)), np.zeros(4)
ARRAYS = {"x_train": X, "y_train": Y, "x_val": X, "y_val": Y}
KERNEL = """
def make(keras, cell, units, options): ...
def to_canonical(layer, values=None): ...
def from_canonical(layer, arrays): ...
"""
FILES: dict[str, str | bytes | dict[str, np.ndarray]] = {
    "table.csv": "a,b,label\n1,2,0\n",
    "table.parquet": b"PAR1",
    "text.txt": "no arrays",
    "not.npz": b"no zip file",
    "good.npz": ARRAYS,
    "names.npz": {"X": X, "y": Y},
    "misspelt.npz": ARRAYS | {"sample_weights_train": Y},
    "objects.npz": ARRAYS | {"x_train": np.array([[1], [1, 2]], dtype=object)},
    "texts.npz": ARRAYS | {"y_train": np.array(["a"] * 4)},
    "lengths.npz": ARRAYS | {"y_val": Y[1:]},
    "shapes.npz": ARRAYS | {"x_val": X[:, :, 1:]},
    "test.npz": {name.replace("val", "test"): array for name, array in ARRAYS.items()}
    | {"x_test": X[:, :, 1:]},
    "empty.npz": ARRAYS | {"x_train": X[:0], "y_train": Y[:0]},
    "mine.py": MINE,
    "mine.yaml": MINE_YAML,
    "loss.yaml": MINE_YAML.replace("sparse_categorical_crossentropy", "sparse_crossentropy"),
    "function.yaml": MINE_YAML.replace("mine.py:build", "mine.py:bild"),
    "other.yaml": MINE_YAML.replace("mine.py:build", "other.py:build"),
    "latin.yaml": "about: \xfc".encode("latin-1"),
    "list.yaml": "- function: mine.py:build",
    "two.py": MINE.replace("recurrent, config", "recurrent"),
    "two.yaml": MINE_YAML.replace("mine.py:build", "two.py:build"),
    "reads.yaml": MINE_YAML + "arrays: [X, Z]\n",
    "itself.yaml": MINE_YAML + "arrays: null\n",
    "kernel.py": KERNEL,
    "kernel.yaml": "implementation: kernel.py\n",
    "cells.yaml": "implementation: kernel.py\ncells: [lsmt]\n",
    "broken.py": "def make(:",
    "broken.yaml": "implementation: broken.py\n",
    "requires.yaml": "implementation: kernel.py\n"
    "requires: [{key: build.framwork, in: [keras3_torch], why: x}]",
    "lacks.yaml": "implementation: mine.py\n",
    "grids.yaml": "grids: []\n",
    "five.yaml": MINE_YAML.replace("epochs: 5", "epochs: five"),
    "nothing.yaml": "",
    "several.yaml": "grids: [rnn=keras]\nreference: {rnn: [keras, block]}\n",
    "keys.yaml": "grid: [rnn=keras]\n",
    "yaml.yaml": "grids: [rnn=keras",
    "reference.yaml": "grids: [rnn=keras]\nreference: {rnn: block}\n",
}
OWN = "dataset=file dataset.path="
# Words on the command line → what the error says; {} is the folder of `FILES`.
BAD = {
    f"{OWN}{{}}/table.csv": r"dataset.path: \S+table.csv is not .* x_train.*pandas.read_csv.*savez",
    f"{OWN}{{}}/table.parquet": r"table.parquet is not .* Fix: convert it: .*pandas.read_parquet",
    f"{OWN}{{}}/text.txt": "text.txt is not .* Fix: write these arrays with numpy.savez",
    f"{OWN}{{}}/not.npz": "not.npz cannot be read as an .npz file .*zip.* Fix: write it with",
    f"{OWN}{{}}/absent.npz": "dataset.path=.*absent.npz does not exist. Fix: correct the path",
    f"{OWN}{{}}": "dataset.path: .* cannot be read .it is not a regular file.. Fix: name a",
    f"{OWN}/dev/null": "dataset.path: /dev/null cannot be read .it is not a regular file",
    OWN: "dataset.path= is not a path. Fix: write dataset=file dataset.path=FILE",
    "dataset.path={}/good.npz": "dataset.path belongs to dataset=file; the data set is digits. Fix"
    ": add dataset=file",
    "dataset=digits,file dataset.path={}/good.npz": "Fix: add dataset=file",
    f"{OWN}{{}}/shapes.npz": r"x_train \(4, 8, 8\) and x_val \(4, 8, 7\). Fix: give both the same",
    f"model=mnist_mlp rnn=none {OWN}{{}}/test.npz": r"x_train \(4, 8, 8\) and x_test \(4, 8, 7\)",
    f"model=mnist_mlp rnn=none {OWN}{{}}/test.npz model.val_samples=5": "x_test in .* has 4 sam",
    f"{OWN}{{}}/good.npz +model.val_samples=5": "val_samples is 5, but x_val in .* has 4 samples. "
    "Fix: write model.val_samples=4 or fewer",
    "+model.train_samples=0": "model.train_samples is 0; it must be an integer ≥ 1. Fix: ",
    "limits.train=-5": "limits.train is -5.*; it must be a number > 0. Fix: ",
    "limits.import=0": "limits.import is 0.*; it must be a number > 0. Fix: ",
    "+model.metrics=[maee]": "metrics has the value 'maee'; it must be one of .* Fix: did you mean",
    f"{OWN}{{}}/names.npz": r"has X \(4, 8, 8\) float64, y .*not x_train.*digits_rnn reads x_train",
    f"model={{}}/mine.py {OWN}{{}}/misspelt.npz": "nothing reads sample_weights_train in .*"
    "Fix: leave it out, or rename it to one of .*sample_weight_train",
    f"{OWN}{{}}/objects.npz": "x_train in .*objects.npz holds pickled objects.* Fix: save numbers",
    f"model={{}}/itself.yaml {OWN}{{}}/objects.npz": "objects.npz holds pickled objects",
    f"{OWN}{{}}/texts.npz": "y_train in .*texts.npz is of type <U1.* Fix: save numbers",
    f"{OWN}{{}}/lengths.npz": r"x_val \(4, 8, 8\) and y_val \(3,\). Fix: give both the same",
    f"{OWN}{{}}/empty.npz": "x_train in .*empty.npz has no samples",
    f"model=mnist_rnn {OWN}{{}}/good.npz": "not x_test, y_test; mnist_rnn reads x_train, y_train",
    f"model={{}}/reads.yaml {OWN}{{}}/names.npz": "but not Z; reads reads X, Z. .*as `arrays`",
    "dataset={}/table.csv": "dataset=.*csv is not a choice. Fix: write dataset=file dataset.path=",
    "dataset=file": "dataset.path has no value",
    "dataset=digit": "Fix: did you mean digits",
    "model={}/mine.py": "dataset.path has no value. Fix: write dataset.path=VALUE",
    "model={}/absent.yaml": "absent.yaml: no such file. Fix: correct the path",
    "model={}/loss.yaml": "loss.yaml: model.loss is 'sparse_crossentropy'; it must be one of.*"
    "Fix: did you mean sparse_categorical_crossentropy",
    "model={}/function.yaml": "mine.py has no function bild. Fix: did you mean build",
    "model={}/latin.yaml": "latin.yaml: cannot be read .*utf-8.* Fix: save it as UTF-8",
    "model={}/list.yaml": "/list.yaml: model=list has no keys. Fix: write `KEY: VALUE` lines",
    "model={}/two.yaml": "two.py, line 5: build cannot be called with 3 arguments. Fix: .*models",
    "model={}/other.yaml": "other.yaml: other.py: .*other.py does not exist",
    "model.loss=mean_square": "model.loss is 'mean_square'.* Fix: did you mean mean_squared_error",
    "model={}/five.yaml model.epochs=3": "five.yaml: model.epochs is 'five'.* Fix: write an int",
    "model={}/nothing.yaml model.epochs=3": "yaml: model has no function. Fix: add function",
    "model.optimizer.learning_rate=-1": "learning_rate is -1.* it must be a number > 0. Fix: write",
    "dataset=file dataset.path=null": "is not a path. Fix: write dataset=file dataset.path=FILE",
    "rnn=block,cell": "leaves out the reference, rnn=keras. Fix: write rnn=keras,block,cell",
    "{}/several.yaml": "several.yaml: reference.rnn has several values.* Fix: name one choice",
    "model.epochs=0": "model.epochs is 0; it must be an integer ≥ 1. Fix: ",
    "model.epoch=3": "Fix: did you mean model.epochs",
    "model.optimizer.name=adm": "Fix: did you mean adam",
    "rnn={}/kernel.py": "Fix: write the path of a YAML file that names .*docs/own_kernel.md",
    "rnn={}/cells.yaml": "rnn.cells has the unknown name 'lsmt'. Fix: did you mean lstm",
    "rnn={}/broken.yaml": "broken.py: cannot be read as Python .*broken.py, line 1.* Fix: correct",
    "rnn={}/requires.yaml": "requires.yaml: requires: .* Fix: did you mean build.framework",
    "rnn={}/lacks.yaml": "mine.py: has no class Kernel and no function make. Fix: add Kernel or",
    "rnn=kears": "rnn=kears is not a choice. Fix: did you mean keras",
    "rnn=keras,cell +rnn.options.unrol=true": "does not honour rnn.options.unrol.* Fix: ",
    "device=cpu_0": "device=cpu_0 is not a choice. Fix: did you mean cpu_",
    "precision=half": "precision is 'half'; it must be one of float32.* Fix: ",
    "repeat=-1": "repeat is -1; it must be an integer ≥ 0. Fix: ",
    "rnn=[keras": "is not an override.* Fix: write key=value",
    "quick --conf {}/absent": "--conf .*absent: is not a folder. Fix: name a folder",
    "quikc": "experiment=quikc is not a choice. Fix: did you mean quick",
    "{}/grids.yaml": "grids.yaml: grids is empty. Fix: give it at least one grid",
    "{}/keys.yaml": "keys.yaml: .*unknown key 'grid'.* Fix: did you mean grids",
    "{}/yaml.yaml": "yaml.yaml, line 1: cannot be read: .* Fix: correct the YAML",
    "{}/mine.yaml": "mine.yaml: unknown key .* Fix: this is not an experiment; .* write model=",
    "{}/lacks.yaml": "lacks.yaml: unknown key .* Fix: this is not an experiment; .* write rnn=",
    "{}/reference.yaml": "reference.yaml: reference has rnn=block, .* Fix: .*rnn=keras",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        if isinstance(content, dict):
            np.savez(folder / name, **content)
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line_with_a_fix(words: str, files: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    arguments = words.replace("{}", str(files)).split()
    if "device=" not in words:
        arguments.append("device=cpu_1")  # half the grid points; each costs time before its fault
    assert main(["plan", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and error.count("Fix: ") == 1
    assert re.search(BAD[words], error), error


def test_own_data_that_fit_are_accepted(files: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    for words in (f"{OWN}{files}/good.npz", f"model={files}/itself.yaml {OWN}{files}/table.csv"):
        assert main(["plan", "repeat=0", *words.split()]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        (["keras==3.1", "numpy==2.0"], ["  keras: 3.1 → 3.2", "  numpy: 2.0 → 2.1"]),
        (
            ["keras==3.2", "numpy==2.1"],
            ["  the packages are the same, so its Python changed: today 3.12.4"],
        ),
        (
            ["keras==3.2", "numpy==2.1", "torch==2.0", "other==1"],
            ["  torch: 2.0 → none"],
        ),
        ([], []),
    ],
)
def test_the_reason_of_another_lock_is_named(monkeypatch, packages, text) -> None:
    today = Versions("3.12.4", {"keras": "3.2", "numpy": "2.1"})
    monkeypatch.setattr(plan, "versions", lambda build, root: today)
    record = make_record()
    record = replace(record, environment={"packages": packages})
    assert plan._changed_packages(record.run, record, ROOT) == text


def test_any_package_of_a_changed_lock_is_named() -> None:
    """Also those that are no framework: each of them is in the digest of the lock."""
    build = {
        "name": "tf_1_15",
        "framework": "keras2_tensorflow1",
        "lock": "tf_1_15",
        "python": "3.7",
    }
    locked = plan.locked_versions(plan.pins_of(plan.build_of(build), ROOT))
    assert "protobuf" in locked
    packages = [f"{name.replace('-', '_')}=={version}" for name, version in locked.items()]

    def changes(packages: list[str]) -> list[str]:
        record = make_record()
        run = replace(record.run, config={**record.run.config, "build": build})
        record = replace(record, environment={"packages": packages})
        return plan._changed_packages(run, record, ROOT)

    same = "  the packages are the same, so its Python, wheel or hashes changed: today 3.7"
    assert changes(packages) == [same]
    others = [package for package in packages if not package.startswith("protobuf==")]
    assert changes([*others, "protobuf==0.1", "six_more==1"]) == [
        f"  protobuf: 0.1 → {locked['protobuf']}",
        "  six-more: 1 → none",
    ]
