"""Which models are trained by two updates of one name."""

from __future__ import annotations

import dataclasses

from rnnbench.report.axis_sections import PARTED, builds_section
from rnnbench.tables.builds import builds
from rnnbench.tables.frame import tidy
from rnnbench.tables.optimizers import CAUSES, Parted, parted
from tests.factory import make_record


def trained(build: str, framework: str, optimizer: str, **model):
    record = make_record()
    about = {**record.config["model"], "optimizer": {"name": optimizer}, **model}
    config = {**record.config, "model": about, "build": {"name": build, "framework": framework}}
    choices = {**record.choices, "build": build}
    name = record.name.replace("current", build)
    return dataclasses.replace(record, config=config, choices=choices, name=name)


def test_rmsprop_in_both_generations_of_keras() -> None:
    records = [
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="m"),
        trained("keras3_torch", "keras3_torch", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="other"),
    ]
    assert parted(records) == [Parted("m", "epsilon", ("tf_1_15",), ("tf_2_15", "keras3_torch"))]
    assert parted(records[2:]) == []


def test_an_embedding_in_keras_3_on_tensorflow() -> None:
    places = (("tf_2_21", "keras3_tensorflow"), ("keras3_torch", "keras3_torch"))
    with_one = [trained(*place, "adam", name="m", embedding=8) for place in places]
    assert parted(with_one) == [Parted("m", "rows", ("tf_2_21",), ("keras3_torch",))]
    assert parted([trained(*place, "adam", name="m") for place in places]) == []
    assert parted([trained(*place, "sgd", name="m", embedding=8) for place in places]) == []


def test_the_report_says_so_beside_the_builds() -> None:
    records = [
        trained("tf_2_21", "keras3_tensorflow", "adam", name="m", embedding=8),
        trained("keras3_torch", "keras3_torch", "adam", name="m", embedding=8),
    ]
    table = builds(tidy(records), {})
    told = builds_section(table, parted(records)).words
    assert "in `tf_2_21` and squares their sum in `keras3_torch`." in told[-1]
    assert not any("embedding" in words for words in builds_section(table).words)
    assert set(PARTED) == set(CAUSES)
