"""Models whose optimizer has different updates under the same name."""

from __future__ import annotations

from rnnbench.report.notes import optimizer_notes
from rnnbench.report.sections import builds_section
from tests.factory import make_record, replace
from tests.report.made_up import measurements

BUILDS = (("tf_2_21", "keras3_tensorflow"), ("keras3_torch", "keras3_torch"))


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


def texts(records) -> list[str]:
    return [note.partition(". Their losses")[0] for note in optimizer_notes(records)]


def test_rmsprop_differs_between_generations_of_keras() -> None:
    records = [
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_1_15", "keras2_tensorflow1", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="m"),
        trained("keras3_torch", "keras3_torch", "rmsprop", name="m"),
        trained("tf_2_15", "keras2_tensorflow2", "rmsprop", name="other"),
    ]
    assert texts(records) == [
        "`m` is trained with RMSprop, which adds epsilon to the square root in `tf_1_15` and "
        "inside it in `tf_2_15`, `keras3_torch`"
    ]
    assert texts(records[2:]) == []


def test_an_embedding_differs_in_keras_3_on_tensorflow() -> None:
    assert texts([trained(*build, "adam", name="m", embedding=8) for build in BUILDS]) == [
        "`m` has an embedding: if a batch contains a row of it several times, the optimizer adds "
        "the squares of the row's gradients in `tf_2_21` and squares their sum in `keras3_torch`"
    ]
    assert texts([trained(*build, "adam", name="m") for build in BUILDS]) == []
    assert texts([trained(*build, "sgd", name="m", embedding=8) for build in BUILDS]) == []


def test_the_report_states_the_difference_in_the_builds_section() -> None:
    records = [trained(*build, "adam", name="m", embedding=8) for build in BUILDS]
    paragraphs = builds_section(measurements(records, {})).paragraphs
    assert "in `tf_2_21` and squares their sum in `keras3_torch`." in paragraphs[-1]
    plain = [trained(*build, "adam", name="m") for build in BUILDS]
    assert not any("embedding" in t for t in builds_section(measurements(plain, {})).paragraphs)
