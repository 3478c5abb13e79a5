"""Models whose optimizer has different updates under the same name."""

from __future__ import annotations

from rnnbench.report.notes import optimizer_notes
from rnnbench.report.sections import builds_section
from tests.factory import make_record, replace
from tests.report.made_up import measurements

BUILDS = (("tf_2_21", "keras3_tensorflow"), ("keras3_torch", "keras3_torch"))


def trained(build: str, framework: str, optimizer: str, **model):
    record = make_record(build=build)
    config = record.run.config
    model = {**config["model"], "optimizer": {"name": optimizer}, **model}
    build_config = {"name": build, "framework": framework}
    return replace(record, config={**config, "model": model, "build": build_config})


def texts(records) -> list[str]:
    return [note.partition(". Their losses")[0] for note in optimizer_notes(records)]


def test_rmsprop_differs_between_generations_of_keras() -> None:
    old, new = ("tf_1_15", "keras2_tensorflow1"), ("tf_2_15", "keras2_tensorflow2")
    made = [trained(*build, "rmsprop", name="m") for build in (old, old, new, BUILDS[1])]
    made.append(trained(*new, "rmsprop", name="other"))
    assert texts(made) == [
        "`m` is trained with RMSprop, which adds epsilon to the square root in `tf_1_15` and "
        "inside it in `tf_2_15`, `keras3_torch`"
    ]
    assert texts(made[2:]) == []


def test_an_embedding_differs_in_keras_3_on_tensorflow() -> None:
    records = [trained(*build, "adam", name="m", embedding=8) for build in BUILDS]
    plain = [trained(*build, "adam", name="m") for build in BUILDS]
    assert texts(records) == [
        "`m` has an embedding: if a batch contains a row of it several times, the optimizer adds "
        "the squares of the row's gradients in `tf_2_21` and squares their sum in `keras3_torch`"
    ]
    assert texts(plain) == []
    assert texts([trained(*build, "sgd", name="m", embedding=8) for build in BUILDS]) == []
    # The section of the builds states it.
    paragraphs = builds_section(measurements(records, {})).paragraphs
    assert "in `tf_2_21` and squares their sum in `keras3_torch`." in paragraphs[-1]
    assert not any("embedding" in t for t in builds_section(measurements(plain, {})).paragraphs)
