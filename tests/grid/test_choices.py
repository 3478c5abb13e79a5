"""``conf/``: each choice is valid, and each published workload and question composes, runs on a CPU
as far as possible, and needs no private data."""

from __future__ import annotations

import functools
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from rnnbench.datasets.pins import pinned
from rnnbench.grid.choices import Model, Rnn, schemas
from rnnbench.grid.expand import SIZES, expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.point import GridPoint
from rnnworker import user_functions
from rnnworker.cards import unmet_device
from rnnworker.kernels.contrib import CLASSES
from tests.conftest import ROOT
from tests.grid.conftest import CONF, MINE_YAML, Expand

# The published batch size, epochs and optimizer of each workload.
PUBLISHED = {
    "mnist_mlp": (128, 20, "rmsprop"),
    "mnist_cnn": (128, 12, "adadelta"),
    "cifar10_cnn": (32, 20, "rmsprop"),
    "imdb_fasttext": (32, 5, "adam"),
    "imdb_bilstm": (32, 4, "adam"),
    "imdb_lstm": (32, 15, "adam"),
    "lstm_textgen": (128, 10, "rmsprop"),
    "mnist_rnn": (32, 3, "adam"),
    "shape_short": (64, 20, "adam"),
    "shape_long": (32, 20, "adam"),
    "adding": (64, 5, "adam"),
}
WITHOUT_RECURRENT_LAYER = {"mnist_mlp", "mnist_cnn", "cifar10_cnn", "imdb_fasttext"}
MAKE_THEIR_OWN_DATA = {"shape_short", "shape_long", "adding"}


@functools.cache
def points_of(name: str, overrides: str = "") -> tuple[GridPoint, ...]:
    """The grid points of a shipped experiment on a machine with two cores and no GPU."""
    experiment = load_experiment(name, [CONF])
    return expand(experiment, [CONF], overrides.split(), lambda c: unmet_device(c["device"], 2, ()))


def test_each_workload_has_the_published_settings_and_all_keys(expanded: Expand) -> None:
    points = expanded(f"model={','.join(PUBLISHED)}")
    assert all(point.skip is None for point in points)
    models = {point.choices["model"]: point.config["model"] for point in points}
    for point in points:
        name, model = point.choices["model"], point.config["model"]
        settings = (model["batch"], model["epochs"], model["optimizer"]["name"])
        assert settings == PUBLISHED[name]
        assert model["recurrent"] is (name not in WITHOUT_RECURRENT_LAYER)
        assert (point.config["rnn"]["name"] == "none") is (name in WITHOUT_RECURRENT_LAYER)
        path = point.config["dataset"]["path"]
        assert (path is None) is (name in MAKE_THEIR_OWN_DATA)
        assert path is None or path in pinned(ROOT)
        keys = {"about", "source", "loss", "metrics", "train_samples", "val_samples"}
        if model["recurrent"]:
            keys |= {"units", "sequence", "recurrent_dropout"}
        assert keys <= set(model), name
        assert "learning_rate" in model["optimizer"], name
        for reference in (model["function"], *model["data"].values()):
            assert callable(user_functions.function(reference)), name
    assert models.keys() == PUBLISHED.keys()
    assert models["mnist_cnn"]["optimizer"]["learning_rate"] == 1.0
    assert models["cifar10_cnn"]["optimizer"]["decay"] == 1e-6
    for model in (models["shape_short"], models["shape_long"]):
        assert model["train_samples"] * model["epochs"] == 500 * model["batch"]


def test_the_small_runs_have_all_models_with_data() -> None:
    points = points_of("seeds_small")
    assert {point.choices["model"] for point in points} == set(PUBLISHED) - {"cifar10_cnn"}
    assert all(point.skip is None for point in points)


def test_recurrent_dropout_excludes_imdb_lstm_from_cudnn(expanded: Expand) -> None:
    skips = {
        point.overrides.get("model.recurrent_dropout"): point.skip
        for point in expanded("model=imdb_lstm rnn=cudnn device=gpu model.recurrent_dropout=0.2,0")
    }
    assert skips == {None: "cuDNN has no recurrent dropout", 0.0: None}


KINDS = {"model": Model, "rnn": Rnn}
FILES = [(group, file) for group in KINDS for file in (ROOT / "conf" / group).glob("*")]


def test_the_files_are_up_to_date() -> None:
    for name, text in schemas().items():
        assert (ROOT / "conf" / "schemas" / name).read_text() == text, "run `make schemas`"


@functools.cache
def validator(group: str, is_whole: bool) -> jsonschema.protocols.Validator:
    """Of files of the group: of whole ones, or of those whose defaults have the other keys."""
    rules = msgspec.json.schema(KINDS[group])
    if not is_whole:
        rules["$defs"][KINDS[group].__name__].pop("required")
    checked = jsonschema.validators.validator_for(rules)
    checked.check_schema(rules)
    return checked(rules)


@pytest.mark.parametrize(("group", "file"), FILES, ids=lambda value: Path(str(value)).stem)
def test_every_shipped_choice_is_valid(group: str, file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    defaults = [entry for entry in content.get("defaults", ()) if isinstance(entry, str)]
    validator(group, set(defaults) <= {"_self_"}).validate(content)


@pytest.mark.parametrize(
    "change", [{"optimizer": "adam"}, {"recurrent": "yes please"}, {"function": "mine.py"}]
)
def test_an_invalid_model_is_rejected(change: dict) -> None:
    good = yaml.safe_load(MINE_YAML)
    validator("model", True).validate(good)
    with pytest.raises(jsonschema.ValidationError):
        validator("model", True).validate({**good, **change})


# The source of each reason is the code of the locked packages: Keras 3.15's
# keras/src/backend/{jax,tensorflow,torch}/rnn.py, keras/src/layers/rnn/{lstm,gru}.py (supports_jit)
# and keras/src/trainers/trainer.py (model_supports_jit), and jaxlib/gpu_rnn.py.
ON = "model=shape_short device=gpu "
GRU_IN_JAX = "jax has cuDNN's LSTM alone: Keras's GRU there is a scan"
HALVES_IN_JAX = "jax's cuDNN LSTM takes float32 only"
XLA = "cuDNN is not compiled"
NO_OP = "XLA has no CudnnRNN op"


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("rnn=cudnn cell=gru build=keras3_jax_cuda", GRU_IN_JAX),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda", None),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=tf32", None),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=mixed_float16", HALVES_IN_JAX),
        ("rnn=cudnn cell=lstm build=keras3_jax_cuda precision=mixed_bfloat16", HALVES_IN_JAX),
        ("rnn=auto cell=lstm build=keras3_jax_cuda precision=mixed_float16", "takes float32 only"),
        ("rnn=auto cell=gru build=keras3_jax_cuda precision=mixed_float16", None),
        ("rnn=auto cell=lstm build=keras3_jax_cuda", None),
        ("rnn=cudnn cell=gru build=keras3_torch_cuda precision=mixed_float16", None),
        ("rnn=cudnn cell=gru build=tf_cuda precision=mixed_bfloat16", None),
        ("rnn=cudnn cell=gru build=tf_cuda_xla", XLA),
        ("rnn=cudnn cell=lstm build=keras3_torch_cuda +build.jit_compile=true", XLA),
        ("rnn=auto cell=lstm build=tf_cuda_xla", "then trains without XLA"),
        ("rnn=auto cell=rnn_tanh build=tf_cuda_xla", None),
        ("rnn=keras cell=lstm build=tf_cuda_xla", None),
        ("rnn=cudnn_raw cell=lstm build=tf_cuda_xla", NO_OP),
        ("rnn=legacy_cudnn cell=lstm build=tf_cuda_keras2", None),
        ("rnn=legacy_cudnn cell=gru build=tf_cuda_keras2 +build.jit_compile=true", NO_OP),
    ],
)
def test_a_grid_point_on_a_gpu(grid: str, why: str | None, expanded: Expand) -> None:
    (point,) = expanded(ON + grid)
    assert point.skip is None if why is None else why in (point.skip or "")


def test_the_gpu_experiment_skips_grid_points_that_could_only_be_void() -> None:
    reasons = {point.skip for point in points_of("gpu") if point.skip}
    assert {GRU_IN_JAX, HALVES_IN_JAX} <= reasons
    assert any(reason.startswith(XLA) for reason in reasons)


ON_A_CPU = {
    "relu_confound": 32,
    "keras_implementation": 18,
    "contrib": 45,
    "why_not_cudnn": 17,
    "inference": 24,
    "threads": 12,
    "samples_612235": 12,
    "cpu_against_gpu": 36,
    "pip_against_compiled": 18,
    "k80_p100": 0,
}
ON_A_CARD = {"samples_612235": 18, "cpu_against_gpu": 48, "k80_p100": 24, "contrib": 0}


@pytest.mark.parametrize("name", ON_A_CPU)
def test_a_published_question_is_an_experiment(name: str) -> None:
    points = points_of(name)
    assert len([point for point in points if point.skip is None]) == ON_A_CPU[name]
    on_card = [p for p in points if p.config["device"]["kind"] == "gpu" and p.skip]
    assert len([p for p in on_card if p.choices["build"] != "tf_1_15"]) == ON_A_CARD.get(name, 0)
    assert load_experiment(name, [CONF]).title.endswith("?"), "the title is the question"


def test_the_experiment_contrib_has_every_class() -> None:
    points = [point for point in points_of("contrib") if point.choices["rnn"] == "contrib"]
    classes = {(p.choices["cell"], p.config["rnn"]["options"]["class"]) for p in points}
    assert classes == {(cell, name) for cell, names in CLASSES.items() for name in names}


def test_each_call_of_inference_has_one_batch_of_any_size() -> None:
    points = points_of("inference", "model.batch=1,2,512")
    sizes = {(p.config["model"]["batch"], p.config["model"]["val_samples"]) for p in points}
    assert sizes == {(1, 1), (2, 2), (512, 512)}


AT_FULL_SIZE = [
    ("relu_confound", "scale=published"),
    ("why_not_cudnn", "device=gpu build=tf_cuda"),
    ("keras_implementation", "model=lstm_textgen model.batch=128 scale=published"),
    ("relu_confound", "device=gpu build=tf_cuda"),
    ("threads", "scale=published"),
    ("samples_612235", "scale=published"),
    ("cpu_against_gpu", "scale=published"),
    ("pip_against_compiled", "scale=published"),
    ("k80_p100", "device=gpu"),
]
EACH_SIZE = pytest.mark.slow_tier("each experiment at its full size")


@pytest.mark.parametrize(
    ("name", "overrides"),
    [*AT_FULL_SIZE[:3], *(pytest.param(*each, marks=EACH_SIZE) for each in AT_FULL_SIZE[3:])],
)
def test_the_full_size_is_one_override(name: str, overrides: str) -> None:
    assert f"`rnnbench run {name} {overrides}" in load_experiment(name, [CONF]).about
    points = points_of(name, overrides)
    assert points
    if "scale=" in overrides:
        assert not SIZES.intersection(key for point in points for key in point.overrides)


MIRRORED = {"mnist": "mnist_10k", "imdb": "imdb_from_text"}


EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


def published_data(name: str) -> dict[str, dict]:
    """The data sets of an experiment, by name."""
    return {point.config["dataset"]["name"]: point.config["dataset"] for point in points_of(name)}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_published_data_everywhere(name: str) -> None:
    published = published_data(name)
    for dataset, section in published.items():
        assert section.get("url") or dataset in ("digits", "none"), name
    mirrors = ",".join(mirror for dataset, mirror in MIRRORED.items() if dataset in published)
    if mirrors:
        assert f"`rnnbench run {name} dataset={mirrors}`" in load_experiment(name, [CONF]).about


# With both data sets that have a mirror.
BOTH = "seeds_small"
EACH = pytest.mark.slow_tier("each experiment with other data")


@pytest.mark.parametrize(
    "name",
    [BOTH, *(pytest.param(name, marks=EACH) for name in EXPERIMENTS if name != BOTH)],
)
def test_mirrored_data_by_one_override(name: str) -> None:
    points, published = points_of(name), published_data(name)
    assert name != BOTH or published.keys() >= MIRRORED.keys()
    if not published.keys() & MIRRORED:
        return
    mirrored = points_of(name, "dataset=mnist_10k,imdb_from_text")
    assert len(mirrored) == len(points)
    names = {point.config["dataset"]["name"] for point in mirrored}
    assert names == {MIRRORED.get(dataset, dataset) for dataset in published}
