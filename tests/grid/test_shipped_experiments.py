"""``conf/experiment``: each published question composes, runs on a CPU as far as possible, and
needs no private data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.point import GridPoint
from rnnworker.cards import unmet_device
from rnnworker.kernels.contrib import CLASSES
from tests.grid.conftest import CONF

ON_A_CPU = {
    "relu_confound": 12,
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
ON_A_CARD = {"samples_612235": 6, "cpu_against_gpu": 24, "k80_p100": 24, "contrib": 0}


def points_of(name: str, conf: list[Path], overrides: Sequence[str] = ()) -> tuple[GridPoint, ...]:
    """The grid points of the experiment on a machine with two cores and no GPU."""
    experiment = load_experiment(name, conf)
    return expand(experiment, conf, overrides, lambda c: unmet_device(c["device"], 2, ()))


@pytest.mark.parametrize("name", ON_A_CPU)
def test_a_published_question_is_an_experiment(name: str, conf: list[Path]) -> None:
    points = points_of(name, conf)
    assert len([point for point in points if point.skip is None]) == ON_A_CPU[name]
    on_card = [p for p in points if p.config["device"]["kind"] == "gpu" and p.skip]
    assert len([p for p in on_card if p.choices["build"] != "tf_1_15"]) == ON_A_CARD.get(name, 0)
    assert load_experiment(name, conf).title.endswith("?"), "the title is the question"


def test_the_experiment_contrib_has_every_class(conf: list[Path]) -> None:
    points = [point for point in points_of("contrib", conf) if point.choices["rnn"] == "contrib"]
    classes = {(p.choices["cell"], p.config["rnn"]["options"]["class"]) for p in points}
    assert classes == {(cell, name) for cell, names in CLASSES.items() for name in names}


def test_each_call_of_inference_has_one_batch_of_any_size(conf: list[Path]) -> None:
    points = points_of("inference", conf, ("model.batch=1,2,512",))
    sizes = {(p.config["model"]["batch"], p.config["model"]["val_samples"]) for p in points}
    assert sizes == {(1, 1), (2, 2), (512, 512)}


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("relu_confound", ("model.train_samples=null", "model.val_samples=null")),
        ("relu_confound", ("device=gpu", "build=tf_cuda")),
        (
            "keras_implementation",
            (
                "model=lstm_textgen",
                "model.batch=128",
                "model.epochs=10",
                "model.train_samples=null",
                "model.val_samples=null",
            ),
        ),
        ("why_not_cudnn", ("device=gpu", "build=tf_cuda")),
        ("threads", ("model.epochs=4", "model.train_samples=25000", "model.val_samples=25000")),
        ("samples_612235", ("model.train_samples=612235", "model.val_samples=61224")),
        ("cpu_against_gpu", ("model.train_samples=null", "model.val_samples=null")),
        ("pip_against_compiled", ("model.train_samples=25000", "model.val_samples=25000")),
        ("k80_p100", ("device=gpu",)),
    ],
)
def test_the_full_size_is_one_override(
    name: str, overrides: tuple[str, ...], conf: list[Path]
) -> None:
    assert " ".join(overrides) in load_experiment(name, conf).about
    assert points_of(name, conf, overrides)


MIRRORED = {"mnist": "mnist_10k", "imdb": "imdb_from_text"}


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "experiment").glob("*.yaml")))
def test_published_data_everywhere_and_mirrored_data_by_one_override(
    name: str, conf: list[Path]
) -> None:
    published = {p.config["dataset"]["name"]: p.config["dataset"] for p in points_of(name, conf)}
    for dataset, section in published.items():
        assert section.get("url") or dataset in ("digits", "none"), name
    if not published.keys() & MIRRORED:
        return
    override = f"dataset={','.join(MIRRORED[d] for d in MIRRORED if d in published)}"
    assert f'overrides="{override}"' in load_experiment(name, conf).about
    mirrored = points_of(name, conf, ("dataset=mnist_10k,imdb_from_text",))
    assert len(mirrored) == len(points_of(name, conf))
    names = {point.config["dataset"]["name"] for point in mirrored}
    assert names == {MIRRORED.get(dataset, dataset) for dataset in published}
