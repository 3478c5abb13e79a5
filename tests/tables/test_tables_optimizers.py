"""Models whose optimizer has different updates under the same name."""

from __future__ import annotations

from rnnbench.report.axis_sections import OPTIMIZER_SENTENCES, builds_section
from rnnbench.tables.builds import builds
from rnnbench.tables.frame import tidy
from rnnbench.tables.optimizers import CAUSES, OptimizerDifference, optimizer_differences
from tests.factory import make_record, replace


def trained(build: str, framework: str, optimizer: str, **model):
    record = make_record()
    model_config = {**record.run.config["model"], "optimizer": {"name": optimizer}, **model}
    config = {
        **record.run.config,
        "model": model_config,
        "build": {"name": build, "framework": framework},
    }
    choices = {**record.run.choices, "build": build}
    name = record.name.replace("current", build)
    return replace(record, config=config, choices=choices, name=name)


def test_rmsprop_differs_between_generations_of_keras() -> None:
    records = [
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="m"),
        trained("keras3_torch", "keras3_torch", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="other"),
    ]
    assert optimizer_differences(records) == [
        OptimizerDifference("m", "epsilon", ("tf_1_15",), ("tf_2_15", "keras3_torch"))
    ]
    assert optimizer_differences(records[2:]) == []


def test_an_embedding_differs_in_keras_3_on_tensorflow() -> None:
    builds = (("tf_2_21", "keras3_tensorflow"), ("keras3_torch", "keras3_torch"))
    with_embedding = [trained(*build, "adam", name="m", embedding=8) for build in builds]
    assert optimizer_differences(with_embedding) == [
        OptimizerDifference("m", "rows", ("tf_2_21",), ("keras3_torch",))
    ]
    assert optimizer_differences([trained(*build, "adam", name="m") for build in builds]) == []
    assert (
        optimizer_differences([trained(*build, "sgd", name="m", embedding=8) for build in builds])
        == []
    )


def test_the_report_states_the_difference_in_the_builds_section() -> None:
    records = [
        trained("tf_2_21", "keras3_tensorflow", "adam", name="m", embedding=8),
        trained("keras3_torch", "keras3_torch", "adam", name="m", embedding=8),
    ]
    table = builds(tidy(records), {})
    texts = builds_section(table, optimizer_differences(records)).paragraphs
    assert "in `tf_2_21` and squares their sum in `keras3_torch`." in texts[-1]
    assert not any("embedding" in text for text in builds_section(table).paragraphs)
    assert set(OPTIMIZER_SENTENCES) == set(CAUSES)
