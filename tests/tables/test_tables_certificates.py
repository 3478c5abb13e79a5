"""What certificates say about two configurations."""

from __future__ import annotations

import pytest

from rnnbench.records.overrides import Overrides
from rnnbench.tables.certificates import CERTIFIED, UNEQUAL, UNKNOWN, Certificates
from rnnbench.tables.learning import accuracy
from tests.factory import make_record, measured
from tests.report.six import SIZES, as_read, certificate, layers, steps


def config(rnn, build="tf_2_21", device="cpu_1", **options):
    overrides = Overrides.of({f"rnn.options.{name}": value for name, value in options.items()})
    return {"model": "mnist_rnn", "cell": "lstm", "build": build, "rnn": rnn, "device": device,
            "options": overrides, "variant": overrides}  # fmt: skip


KERAS = config("keras")
WRONG = layers()
WRONG["batches"][3]["outputs"] = 0.5
PUBLISHED = {"build.as_published": True, "model.units": 8}


def judging(*made):
    """Certificates with records of the functions that the tests judge."""
    records = [
        make_record(model=model, build=build, overrides=overrides)
        for overrides in ({}, PUBLISHED)
        for model in ("mnist_rnn", "digits_rnn")
        for build in ("tf_2_21", "tf_1_15", "current")
    ]
    return Certificates(as_read(*made), tuple(records))


def test_judgement_follows_the_certificates():
    certificates = judging(certificate("tf_2_21"), certificate("tf_1_15"))
    assert certificates.judge(config("block"), KERAS)[0] == CERTIFIED
    verdict, why = certificates.judge(config("cell", "tf_1_15"), config("keras", "tf_1_15"))
    assert verdict == UNEQUAL and "gradients differ by 0.03" in why
    assert certificates.judge(config("block", "tf_1_15"), KERAS)[0] == CERTIFIED
    assert certificates.judge(config("mine"), KERAS)[0] == UNKNOWN
    assert Certificates().judge(config("block"), KERAS)[0] == UNKNOWN
    failed, why = certificate("tf_2_21"), "outputs are NaN"
    failed["implementations"]["block"] |= {"status": "failed", "why": why, "function_why": why}
    verdict, why = judging(failed).judge(config("block"), KERAS)
    assert verdict == UNEQUAL and "outputs are NaN" in why


def with_options():
    """A certificate of `keras` and `unrolled`, both with tanh and with relu."""
    result = certificate("tf_2_21")
    plain = result["implementations"]["keras"]
    relu = {"activation": "relu", "recurrent_activation": "sigmoid", "use_bias": True}
    for name in ("keras", "unrolled"):
        result["implementations"][name] = plain | {"function": relu | {"activation": "tanh"}}
        result["implementations"][f"{name} activation=relu"] = plain | {"function": relu}
    return result


def test_an_implementation_is_judged_with_its_options():
    certificates, relu = judging(with_options()), {"activation": "relu"}
    keras_relu = config("keras", **relu)
    assert certificates.judge(config("unrolled", **relu), keras_relu)[0] == CERTIFIED
    verdict, why = certificates.judge(keras_relu, KERAS)
    assert (verdict, why) == (UNEQUAL, "not the same function: activation relu instead of tanh")
    verdict, why = certificates.judge(config("block", **relu), KERAS)
    assert verdict == UNEQUAL and "relu instead of tanh" in why
    # A full name in the certificate of one side does not differ from the options of the other.
    hard = with_options()
    options = {"recurrent_activation": "hard_sigmoid"}
    function = {"recurrent_activation": "hard_sigmoid of Keras 3"}
    entries = hard["implementations"]
    entries["keras recurrent_activation=hard_sigmoid"] = entries["keras"] | {"function": function}
    pair = (config("keras", **options), config("keras", "tf_1_15", **options))
    assert judging(hard).judge(*pair)[0] == UNKNOWN
    # Without a certificate the options decide, and naming the default is not a difference.
    assert Certificates().judge(keras_relu, KERAS)[0] == UNEQUAL
    other = config("keras", activation="tanh")
    assert Certificates().judge(other, KERAS)[0] == UNKNOWN
    verdict, why = certificates.judge(config("unrolled", implementation=1), KERAS)
    assert verdict == UNKNOWN and why.startswith("unrolled implementation=1 was not certified")


def test_a_failed_entry_does_not_affect_other_options():
    failing = certificate("tf_2_21")
    entries, why = failing["implementations"], "ValueError: no such op"
    entries["cudnn_raw op=A"] = entries["keras"]
    entries["cudnn_raw op=B"] = entries["keras"] | {"status": "failed", "function_why": why}
    certificates = judging(failing)
    assert certificates.judge(config("cudnn_raw", op="A"), KERAS)[0] == CERTIFIED
    assert certificates.judge(config("cudnn_raw", op="B"), KERAS)[0] == UNEQUAL


def wrong_gradients(build, device="cpu_1", **changes):
    """A certificate whose `block` applies wrong gradients on `device`."""
    result = certificate(build, **changes) | {"machine": None}
    block = result["implementations"]["block"]
    applied = block["applied"] | {device: steps(12, 0.87)}
    block |= {"status": "failed", "why": "…", "applied": applied}
    return result


def test_wrong_gradients_make_unequal_on_that_device_only():
    certificates = judging(wrong_gradients("tf_2_21"))
    text = (
        "applies wrong gradients: 12 of 30 training steps applied a gradient other than the "
        "computed one (worst 87 %)"
    )
    assert certificates.why_not_learning(config("block")) == text
    assert certificates.why_not_learning(KERAS) is None
    assert certificates.judge(config("block"), KERAS) == (UNEQUAL, f"block {text}")
    # It is not even equal to itself there.
    other = config("block", device="cpu_4")
    assert certificates.judge(config("block"), other)[0] == UNEQUAL
    assert certificates.why_not_learning(other) is None
    assert certificates.judge(other, config("keras", device="cpu_4"))[0] == CERTIFIED
    verdict, why = certificates.judge(config("block", device="cpu_2"), KERAS)
    assert (verdict, why) == (UNKNOWN, "block is not certified for cpu_2: it was not tried")


def test_a_certificate_of_a_build_as_published_names_that():
    as_published = wrong_gradients("current", **PUBLISHED)
    block = config("block", "current")
    certificates = judging(as_published)
    assert certificates.why_not_learning(block) is None
    overrides = Overrides.of(PUBLISHED)
    why = certificates.why_not_learning(block | {"variant": overrides})
    assert why is not None and why.endswith("(worst 87 %), as published")


def test_a_certificate_of_schema_1_is_read_without_steps():
    old = certificate("tf_2_21") | {"schema": 1, "key": "mnist_rnn-lstm-tf_2_21"}
    for entry in old["implementations"].values():
        for name in ("probed", "applied", "function", "function_why"):
            del entry[name]
    old["pairs"][2] |= {"outputs": 1.0}
    certificates = judging(old)
    verdict, why = certificates.judge(config("block"), KERAS)
    assert verdict == UNKNOWN and why.startswith("block is not certified for cpu_1")
    assert certificates.judge(config("cudnn"), KERAS)[0] == UNEQUAL


def test_a_certificate_of_schema_2_is_not_inherited_but_its_failures_count():
    old = wrong_gradients("tf_2_21") | {"schema": 2, "key": "mnist_rnn-lstm-tf_2_21"}
    for entry in old["implementations"].values():
        del entry["probed"]
    old["implementations"]["cell"] |= {"status": "failed", "function_why": "outputs differ"}
    certificates = judging(old)
    assert certificates.judge(config("unrolled"), KERAS) == (
        UNKNOWN, "unrolled is not certified for cpu_1: its certificate states no batches",
    )  # fmt: skip
    assert certificates.judge(config("cell"), KERAS) == (UNEQUAL, "cell failed: outputs differ")
    verdict, why = certificates.judge(config("block"), KERAS)
    assert verdict == UNEQUAL and "applies wrong gradients" in why
    # With an override that its function lacks, it says nothing, not even by fallback.
    wide = Overrides.of(PUBLISHED)
    pair = (config("cell") | {"variant": wide}, KERAS | {"variant": wide})
    assert certificates.judge(*pair) == (UNKNOWN, "there is no certificate for them")


@pytest.mark.parametrize(
    ("probed", "expected"),
    [
        (layers(SIZES[1:]), (UNKNOWN, "cell is not certified for batch 32 with training=True")),
        (
            layers(SIZES[:1] + SIZES[2:]),
            (UNKNOWN, "cell is not certified for batch 30 with training=True"),
        ),
        (layers(SIZES[:3]), (UNKNOWN, "cell is not certified for batch 7 with training=False")),
        (
            WRONG,
            (
                UNEQUAL,
                "cell failed: outputs differ from the float64 reference by 5e-01 (tolerance 1e-05) "
                "at batch 7 with training=False",
            ),
        ),
    ],
)
def test_a_batch_or_device_that_was_not_tested_is_not_certified(probed, expected):
    lacking = certificate("tf_2_21") | {"machine": None}
    lacking["implementations"]["cell"]["probed"]["cpu_1"] = probed
    certificates, (verdict, why) = judging(lacking), expected
    expected = (verdict, f"{why} on cpu_1")
    assert certificates.judge(config("cell"), KERAS) == expected
    on_4 = config("cell", device="cpu_4")
    assert certificates.judge(on_4, config("keras", device="cpu_4"))[0] == CERTIFIED
    if verdict == UNEQUAL:
        assert certificates.judge(config("cell"), on_4) == expected, "the device differs"


def test_runs_with_wrong_gradients_are_not_clean():
    statuses = ("clean", "suspect", "void")
    keras, block = (
        [make_record(rnn=rnn, verdict=verdict) for verdict in statuses]
        for rnn in ("keras", "block")
    )
    wrong = wrong_gradients("current", model="digits_rnn")
    marked = judging(wrong).mark_wrong_gradients([*keras, *block])
    assert marked[:3] == keras
    assert [each.verdict.status for each in marked[3:]] == ["suspect", "suspect", "void"]
    assert all(record.verdict.reasons[-1].code == "not_learning" for record in marked[3:])
    table = accuracy(measured(marked)).set_index("rnn")
    assert table["not_learning"].to_dict() == {"keras": False, "block": True}
    assert table.loc["block", "suspect"] == table.loc["block", "runs"]
