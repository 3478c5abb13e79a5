"""An experiment whose models answer: from its file to its plan, its results and its page."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy
import pytest
import yaml

import rnnbench
import rnnserve
from rnnbench.cli import main
from rnnbench.commands.results import unused
from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import load_experiment
from rnnbench.planning import digests
from rnnbench.planning.plan import Plan, write_plan
from rnnbench.planning.planner import make_plan
from rnnbench.prediction import results
from rnnbench.prediction.measure import Job, Outcome
from rnnbench.prediction.messages import Prepared
from rnnbench.records.predictions import ChosenRuntime, Results, prediction_file
from rnnbench.tracking.store import all_runs, connected
from rnnworker import machine
from tests.conftest import ROOT
from tests.serving.test_serving_results import (
    FAST,
    PREPARED,
    SLOW,
    outcome,
    runtime_named,
    turns_of,
)

CONF = [ROOT / "conf"]
CONTENT = {
    "title": "Which?",
    "grids": ["model=shape_short cell=lstm,gru rnn=keras build=serving device=cpu_1"],
    "predict": {"runtimes": ["framework", "litert"], "batches": [1, 8]},
    "lead": "predictions",
}
Planned = Callable[..., Plan]
BUILT_IN = sorted(file.stem for file in (ROOT / "conf/runtime").glob("*.yaml"))
LOWER = ("_int8", "_float16", "_bfloat16")
OWN = """
FIXED_SHAPES, CODE = False, ""
def export(model, arrays, folder): pass
def load(folder, threads, speed=1): pass
"""


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    def plan(**changes: object) -> Plan:
        file = tmp_path / "serve.yaml"
        file.write_text(yaml.safe_dump(CONTENT | changes))
        return make_plan(str(file), CONF, ROOT)

    return plan


def test_it_has_predictions_and_neither_runs_nor_certificates(planned: Planned) -> None:
    plan = planned()
    assert not plan.runs and not plan.rounds and not plan.certificates
    assert [each.choices["cell"] for each in plan.predictions.values()] == ["lstm", "gru"]
    assert {pins.key.partition("-")[0] for pins in plan.environments.values()} == {"serving"}
    wider = planned(grids=[CONTENT["grids"][0] + " model.units=8"]).predictions
    assert [each.overrides for each in wider.values()] == [{"model.units": 8}] * 2


def test_what_is_asked_decides_whether_it_is_measured_again(planned: Planned) -> None:
    def digests(**changes: object) -> set[str]:
        return {each.digest for each in planned(**changes).predictions.values()}

    before = digests()
    assert before == digests(title="Other words")
    assert before.isdisjoint(digests(predict=CONTENT["predict"] | {"batches": [1]}))
    assert before.isdisjoint(digests(predict=CONTENT["predict"] | {"rounds": 9}))


def test_a_runtime_of_one_s_own(planned: Planned, tmp_path: Path) -> None:
    """It is a YAML file, and a Python file beside it."""

    def runtimes_and_digests() -> tuple[tuple[ChosenRuntime, ...], set[str]]:
        digests.forget()  # files that have changed since
        plan = planned(predict={"runtimes": ["framework", "mine.yaml"]})
        planned_all = plan.predictions.values()
        return next(iter(planned_all)).runtimes, {each.digest for each in planned_all}

    def refused(says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            runtimes_and_digests()

    refused(r"mine\.yaml: no such file")
    choice = tmp_path / "mine.yaml"
    choice.write_text("implementation: own.py\nthread: 3\n")
    refused(r"own\.py does not exist")
    own = tmp_path / "own.py"
    own.write_text("CODE = ''")
    refused("thread")
    choice.write_text("implementation: own.py\n")
    refused(r"own\.py: has no export")
    with pytest.raises(ValueError, match=r"own\.py has no export"):
        rnnserve.runtime(str(own))

    own.write_text(OWN)
    runtimes, before = runtimes_and_digests()
    assert [each.name for each in runtimes] == ["framework", "mine"]
    assert (runtimes[1].implementation, runtimes[1].options) == (str(own), {})
    assert rnnserve.runtime(str(own), speed=2).has_fixed_shapes is False
    with pytest.raises(ValueError, match="has no option sped; its options: speed"):
        rnnserve.runtime(str(own), sped=2)
    own.write_text(f"{OWN}#\n")
    after = runtimes_and_digests()[1]
    assert after.isdisjoint(before)
    choice.write_text("defaults: [litert]\noptions: {xnnpack: false}\n")
    runtimes, with_options = runtimes_and_digests()
    assert (runtimes[1].implementation, runtimes[1].options) == ("litert", {"xnnpack": False})
    assert with_options.isdisjoint(after)

    choice.write_text("implementation: litrt\n")
    refused("did you mean litert")
    with pytest.raises(ConfigError, match="write the path of a YAML file that names the Python"):
        planned(predict={"runtimes": ["framework", "own.py"]})
    (tmp_path / "litert.yaml").write_text("implementation: own.py\n")
    choice.write_text("implementation: own.py\noptions: {precision: int4}\n")
    refused("no precision 'int4': one of float32, bfloat16, float16, int8")
    choice.write_text("implementation: own.py\noptions: {precision: int8}\n")
    with pytest.raises(ConfigError, match="the others are compared with mine, which has int8"):
        planned(predict={"runtimes": ["mine.yaml", "framework"]})
    with pytest.raises(ConfigError, match="the same name as"):
        planned(predict={"runtimes": ["litert", "litert.yaml"]})


def test_the_command_line_chooses_runtimes() -> None:
    def made(overrides: str, experiment: str = "serving") -> Plan:
        return make_plan(experiment, CONF, ROOT, overrides=overrides)

    plan = made("runtime=onnxruntime,litert")
    assert plan.experiment.name.startswith("serving+runtime=onnxruntime_litert")
    for each in plan.predictions.values():
        assert [runtime.name for runtime in each.runtimes] == ["onnxruntime", "litert"]
    every = next(iter(made("runtime=glob(*)").predictions.values())).runtimes
    assert sorted(each.name for each in every) == BUILT_IN
    for overrides, experiment, says in [
        ("runtime=litert", "serving", "one runtime is no comparison"),
        ("runtime=litert,litrt", "serving", "did you mean litert"),
        ("+runtime.options.xnnpack=false", "serving", "options belong into a file of yours"),
        ("runtime=litert,openvino", "quick", "only experiments with the key predict"),
    ]:
        with pytest.raises(ConfigError) as raised:
            made(overrides, experiment)
        assert says in str(raised.value)


def test_the_command_grid_takes_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "serving", "runtime=onnxruntime,litert"]) == 0
    assert "padded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"predict": {"runtimes": ["framework", "onnxruntim"]}}, "did you mean onnxruntime?"),
        ({"predict": {"runtimes": ["framework"]}}, "predict.runtimes"),
        ({"reference": {"rnn": "keras"}}, "predict and reference exclude each other"),
        (
            {"grids": "model=shape_short rnn=block build=serving device=cpu_1"},
            "rnn.implementation=block, which cannot be exported",
        ),
        (
            {"grids": "model=shape_short rnn=keras build=keras3_torch device=cpu_1"},
            "build.framework=keras3_torch, which cannot be exported",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(planned: Planned, changes: dict, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        planned(**changes)
    assert says in str(raised.value)


def test_gc_keeps_its_environment_and_retry_says_what_measures_it_again(
    planned: Planned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    plan = planned()
    write_plan(plan, tmp_path / "results")
    (key,) = plan.environments
    for name in (key, "serving-00000000"):
        (tmp_path / "results/envs" / name).mkdir(parents=True)
    found = [path.name for path, _ in unused(tmp_path, tmp_path / "results")]
    assert found == ["serving-00000000"]
    assert main(["retry", "serve", "--results", str(tmp_path / "results")]) == 2
    assert "predictions/NAME.json, and it is measured again" in capsys.readouterr().err


def test_the_experiment_serving_asks_the_four_kinds_of_models() -> None:
    plan = make_plan("serving", CONF, ROOT)
    kinds = set()
    for each in plan.predictions.values():
        model = each.config["model"]
        is_masked = model.get("padding") == "right"
        kinds.add((each.choices["cell"], bool(model.get("bidirectional")), is_masked))
    assert kinds == {
        ("lstm", False, False),
        ("gru", False, False),
        ("lstm", True, False),
        ("lstm", False, True),
    }
    full = [name for name in BUILT_IN if not name.endswith(LOWER)]
    assert sorted(load_experiment("serving", CONF).predict.runtimes) == full


def test_the_experiment_serving_precision_trains_and_has_every_lower_precision() -> None:
    plan = make_plan("serving_precision", CONF, ROOT)
    for each in plan.predictions.values():
        assert each.settings.train
        assert each.runtimes[0].name == "framework"
        lower = {runtime.name for runtime in each.runtimes if runtime.precision != "float32"}
        assert lower == {name for name in BUILT_IN if name.endswith(LOWER)}


def test_training_first_decides_whether_it_is_measured_again(planned: Planned) -> None:
    plain = next(iter(planned().predictions.values()))
    trained = next(iter(planned(predict=CONTENT["predict"] | {"train": True}).predictions.values()))
    assert trained.settings.train and not plain.settings.train
    assert trained.digest != plain.digest


@pytest.fixture
def place(planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the experiment in a project, with its plan; nothing is measured."""
    plan = planned()
    write_plan(plan, tmp_path / "results")
    for name in ("conf", "data.dvc", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)

    def measure(job: Job, say: object) -> tuple[Prepared, list]:
        assert job.batches == [1, 8] and job.threads == 1
        assert job.runtimes[0].name == "framework"
        (job.folder / "litert").mkdir()
        (job.folder / "litert/model.tflite").write_text("exported")
        litert = outcome("litert", turns_of(FAST))
        litert.folder = "litert"
        refused = Outcome(runtime_named("openvino"), "layer lstm")
        prepared = msgspec.convert(PREPARED, Prepared)
        return prepared, [outcome("framework", turns_of(SLOW)), litert, refused]

    monkeypatch.setattr(results, "measure", measure)
    monkeypatch.setattr("rnnbench.commands.rules.end_with_snakemake", lambda: None)
    return tmp_path / "results" / plan.site / "serve"


def test_from_the_plan_to_the_page(
    place: Path,
    planned: Planned,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned()
    first, second = plan.predictions.values()
    file = prediction_file(place, first.name)
    assert main(["predict", str(file), "--digest", first.digest]) == 0
    found = msgspec.json.decode(file.read_bytes(), type=Results)
    assert (found.digest, found.choices["cell"]) == (first.digest, "lstm")

    assert main(["plan", "serve.yaml"]) == 0
    assert main(["report", "serve", "--out", "page"]) == 0
    printed = capsys.readouterr().out
    assert "serve: 2 predictions, 1 measured" in printed
    assert "1 of 2 planned runs are missing." in printed
    assert "For one sample, `litert` answers in 2000 ms, 5.04 times as fast" in printed
    card = json.loads(Path("page/card.json").read_text())
    assert "1 model on " in card["summary"]

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{Path('mlflow.db').absolute()}")
    for _ in range(2):  # what MLflow has is not logged again
        assert main(["report", "serve"]) == 0
    with connected(Path()) as client:
        number = client.get_experiment_by_name("serve").experiment_id
        runs = {run.data.params["runtime"]: run for run in all_runs(client, number)}
        assert len(all_runs(client, number)) == len(runs) == 3
        assert runs["litert"].data.metrics["seconds_1"] == pytest.approx(2.0)
        assert runs["litert"].data.metrics["times_as_fast_1"] == pytest.approx(5.04, rel=1e-3)
        assert runs["openvino"].data.tags["equal"] == "refused: layer lstm"
        files = client.list_artifacts(runs["litert"].info.run_id, "exported")
        assert [file.path for file in files] == ["exported/model.tflite"]

    assert main(["predict", str(prediction_file(place, second.name)), "--digest", "old"]) == 1
    assert not prediction_file(place, second.name).exists()


def test_results_go_to_another_machine(
    place: Path,
    planned: Planned,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["bundle", "serve.yaml", "-o", "folder"]) == 2
    assert "has predictions, for which there are no bundles" in capsys.readouterr().err
    first, second = planned().predictions.values()
    file = prediction_file(place, first.name)
    assert main(["predict", str(file), "--digest", first.digest]) == 0
    assert main(["export", "serve", "-o", "serve.zip"]) == 0
    assert "1 records of serve" in capsys.readouterr().out
    names = zipfile.ZipFile("serve.zip").namelist()
    assert [name for name in names if "model.tflite" in name or "log" in name] == []

    export = Path("serve.zip").absolute()
    other = Path("other").absolute()
    other.mkdir()
    (other / "results").mkdir()
    for name in ("conf", "workflow"):
        (other / name).symlink_to(ROOT / name)
    monkeypatch.chdir(other)
    assert main(["import", str(export)]) != 0
    assert "which is a machine or site of this project" in capsys.readouterr().err
    monkeypatch.setattr(machine, "fingerprint", lambda: {"machine": "elsewhere"})
    for _ in range(2):
        assert main(["import", str(export)]) == 0
    (imported,) = Path("results/imported").glob("*/serve")
    assert prediction_file(imported, first.name).read_bytes() == file.read_bytes()
    assert not prediction_file(imported, second.name).exists()
    assert main(["report", "serve", "--out", "page"]) == 0
    printed = capsys.readouterr().out
    assert "For one sample, `litert` answers in 2000 ms, 5.04 times as fast" in printed
    assert "1 of 2 planned runs are missing." in printed


def test_an_import_of_predictions_is_checked(place: Path, planned: Planned, capsys) -> None:
    first, second = planned().predictions.values()
    file = prediction_file(place, first.name)
    assert main(["predict", str(file), "--digest", first.digest]) == 0
    other = prediction_file(place, second.name)
    other.write_bytes(file.read_bytes())  # it says that it is the first
    assert main(["export", "serve", "-o", "a.zip"]) == 0
    assert main(["import", "a.zip", "--restore"]) != 0
    assert f"says that it is {first.name!r}" in capsys.readouterr().err
    other.unlink()
    plan = place / "predictions.json"
    plan.write_text(plan.read_text().replace(first.digest, second.digest))
    assert main(["export", "serve", "-o", "b.zip"]) == 0
    assert main(["import", "b.zip", "--restore"]) != 0
    assert "not that of the configuration" in capsys.readouterr().err


def test_a_program_asks_for_arrays(place: Path) -> None:
    Path("mine.py").write_text("def build():\n    pass\n")
    data = {"x": numpy.ones((4, 9, 3))}
    answers = rnnbench.predict("mine.py:build", data, ("framework", "litert"), (8, 1), project=".")
    assert answers.fastest() == "litert" and answers.fastest(99) is None
    assert answers.results.runtime("litert").batches[0].ratio.estimate > 4
    assert "For one sample, `litert` answers in 2000 ms" in str(answers)
    assert answers.code.startswith("# litert")
    folder = answers.page.parent
    assert folder.parent == Path("reports").absolute() and folder.name.startswith("predict-mine_")
    assert "rnnbench.predict(" in answers.page.read_text()


def test_a_runtime_s_path_is_relative_to_where_the_program_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    measure = results.measure

    def noted(job: Job, say: object) -> tuple[Prepared, list]:
        asked.extend(job.runtimes)
        return measure(job, say)

    monkeypatch.setattr(results, "measure", noted)
    elsewhere = Path("elsewhere").absolute()
    elsewhere.mkdir()
    (elsewhere / "mine.py").write_text("def build():\n    pass\n")
    (elsewhere / "own.py").write_text(OWN)
    (elsewhere / "own.yaml").write_text("implementation: own.py\noptions: {speed: 2}\n")
    monkeypatch.chdir(elsewhere)
    chosen = ("framework", "own.yaml")
    rnnbench.predict("mine.py:build", {"x": numpy.ones((4, 9, 3))}, chosen, (8, 1), project="..")
    own = asked[1]
    assert (own.name, own.implementation) == ("own", str(elsewhere / "own.py"))
    assert own.options == {"speed": 2}
