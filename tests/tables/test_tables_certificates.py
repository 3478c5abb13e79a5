"""What certificates say about two configurations."""

from __future__ import annotations

import pytest

from rnnbench.records.keys import certificate_key
from rnnbench.records.overrides import Overrides
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.certified import certified, pairs
from rnnbench.tables.learning import accuracy
from rnnbench.tables.outcome import CurvesBy, Equality
from rnnworker.precision import TOLERANCE
from tests.factory import make_record, measured
from tests.report.made_up import SIZES, as_read, certificate, layers, steps

CERTIFIED = Equality.CERTIFIED
UNEQUAL = Equality.UNEQUAL
UNKNOWN = Equality.UNKNOWN


def config(rnn, build="tf_2_21", device="cpu_1", **options):
    overrides = Overrides.of({f"rnn.options.{name}": value for name, value in options.items()})
    return {"model": "mnist_rnn", "cell": "lstm", "build": build, "rnn": rnn, "device": device,
            "options": overrides, "variant": overrides}  # fmt: skip


KERAS = config("keras")
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


def edited(**entries):
    """A certificate with these changes of the `entries` of its implementations; a new one is like
    that of `keras`."""
    result = certificate("tf_2_21")
    made = result["implementations"]
    for name, changes in entries.items():
        if name not in made:
            same = {"outputs": 2e-7, "gradients": 3e-6, "loss_curve": 1e-6}
            result["pairs"] += [{"a": other, "b": name, **same} for other in made]
        made[name] = made.get(name, made["keras"]) | changes
    return result


def failed(why: str) -> dict:
    return {"status": "failed", "why": why, "function_why": why}


def probed(sizes=SIZES, **last):
    """A certificate whose `cell` was tested with these batches on cpu_1; `last`: of the last."""
    result, tested = edited() | {"machine": None}, layers(sizes)
    tested["batches"][-1] |= last
    result["implementations"]["cell"]["probed"]["cpu_1"] = tested
    return result


def wrong_gradients(build, device="cpu_1", **changes):
    """A certificate whose `block` applies wrong gradients on `device`."""
    result = certificate(build, **changes) | {"machine": None}
    block = result["implementations"]["block"]
    applied = block["applied"] | {device: steps(12, 0.87)}
    block |= {"status": "failed", "why": "…", "applied": applied}
    return result


WIDE = {"variant": Overrides.of(PUBLISHED)}
RELU = {"activation": "relu"}
RNN_RELU = {"cell": "rnn_relu"}
PARTS = Overrides.of({"model.a.units": 3, "model.b.units": 4})
OTHER_PARTS = Overrides.of({"model.a.units": 5, "model.b.units": 4})
NAMED_ALIKE = Overrides.of({"model.activation": "x"})
HARD = {"recurrent_activation": "hard_sigmoid"}
FUNCTION = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True}
OPTIONS = edited(
    keras={"function": FUNCTION},
    unrolled={"function": FUNCTION},
    **{f"{name} activation=relu": {"function": FUNCTION | RELU} for name in ("keras", "unrolled")},
)
FULL_NAME = {"function": {"recurrent_activation": "hard_sigmoid of Keras 3"}}
HARD_SIGMOID = edited(**{"keras recurrent_activation=hard_sigmoid": FULL_NAME})
OPERATIONS = edited(**{"cudnn_raw op=A": {}, "cudnn_raw op=B": failed("ValueError: no such op")})
WRONG = (
    "block applies wrong gradients: 12 of 30 training steps applied a gradient other than the "
    "computed one (worst 87 %)"
)
NOT_CERTIFIED = "cell is not certified for batch "


@pytest.mark.parametrize(
    ("made", "a", "b", "verdict", "why"),
    [
        ([certificate("tf_2_21")], config("block"), KERAS, CERTIFIED, ""),
        ([certificate("tf_2_21")], config("mine"), KERAS, UNKNOWN, ""),
        ([certificate("tf_1_15")], config("cell", "tf_1_15"), config("keras", "tf_1_15"), UNEQUAL,
         "gradients differ by 0.03"),
        ([certificate("tf_2_21"), certificate("tf_1_15")], config("block", "tf_1_15"), KERAS,
         CERTIFIED, ""),
        ([], config("block"), KERAS, UNKNOWN, ""),
        ([edited(block=failed("outputs are NaN"))], config("block"), KERAS, UNEQUAL,
         "outputs are NaN"),
        # An implementation is judged with its options.
        ([OPTIONS], config("unrolled", **RELU), config("keras", **RELU), CERTIFIED,
         ""),
        ([OPTIONS], config("keras", **RELU), KERAS, UNEQUAL,
         "not the same function: activation relu instead of tanh"),
        ([OPTIONS], config("block", **RELU), KERAS, UNEQUAL, "relu instead of tanh"),
        ([OPTIONS], config("unrolled", implementation=1), KERAS, UNKNOWN,
         "unrolled implementation=1 was not certified"),
        # A full name in the certificate of one side does not differ from the options of the other.
        ([HARD_SIGMOID], config("keras", **HARD), config("keras", "tf_1_15", **HARD), UNKNOWN,
         ""),
        # Two models, cells or sizes are two functions, whatever their certificates say.
        ([certificate("tf_2_21")], {**KERAS, "model": "mine"}, KERAS, UNEQUAL,
         "model mine instead of"),
        ([certificate("tf_2_21")], {**KERAS, "cell": "gru"}, KERAS, UNEQUAL,
         "not the same function: cell gru instead of lstm"),
        ([certificate("tf_2_21")], {**KERAS, "variant": Overrides.of({"model.units": 3})}, KERAS,
         UNEQUAL, "model.units 3 instead of the default"),
        ([certificate("tf_2_21")], {**KERAS, "variant": PARTS}, {**KERAS, "variant": OTHER_PARTS},
         UNEQUAL, "model.a.units 3 instead of 5"),
        ([], {**KERAS, "variant": Overrides.of({"model.recurrent_dropout": 0.2})}, KERAS,
         UNEQUAL, "model.recurrent_dropout 0.2 instead of the default"),
        # A key of a model hides no option with its name.
        ([OPTIONS], {**config("keras", **RELU), "variant": NAMED_ALIKE},
         {**KERAS, "variant": NAMED_ALIKE}, UNEQUAL, "activation relu instead of tanh"),
        # Without a certificate the options decide, and naming the default is not a difference.
        ([], config("keras", **RELU), KERAS, UNEQUAL, "relu instead of tanh"),
        ([], config("keras", activation="tanh"), KERAS, UNKNOWN, ""),
        # The default of a cell named relu is relu.
        ([], config("keras", **RELU) | RNN_RELU, KERAS | RNN_RELU, UNKNOWN, ""),
        # A failed entry does not affect other options.
        ([OPERATIONS], config("cudnn_raw", op="A"), KERAS, CERTIFIED, ""),
        ([OPERATIONS], config("cudnn_raw", op="B"), KERAS, UNEQUAL, ""),
        # Wrong gradients make unequal on that device only, where it is not even equal to itself.
        ([wrong_gradients("tf_2_21")], config("block"), KERAS, UNEQUAL, WRONG),
        ([wrong_gradients("tf_2_21")], config("block"), config("block", device="cpu_4"), UNEQUAL,
         WRONG),
        ([wrong_gradients("tf_2_21")], config("block", device="cpu_4"),
         config("keras", device="cpu_4"), CERTIFIED, ""),
        # A device or a batch that was not tested is not certified.
        ([wrong_gradients("tf_2_21")], config("block", device="cpu_2"), KERAS, UNKNOWN,
         "block is not certified for cpu_2: it was not tried"),
        ([probed(SIZES[1:])], config("cell"), KERAS, UNKNOWN,
         f"{NOT_CERTIFIED}32 with training=True on cpu_1"),
        ([probed(SIZES[:1] + SIZES[2:])], config("cell"), KERAS, UNKNOWN,
         f"{NOT_CERTIFIED}30 with training=True on cpu_1"),
        ([probed(SIZES[:3])], config("cell"), KERAS, UNKNOWN,
         f"{NOT_CERTIFIED}7 with training=False on cpu_1"),
        ([probed(SIZES[:3])], config("cell", device="cpu_4"), config("keras", device="cpu_4"),
         CERTIFIED, ""),
        ([probed(outputs=0.5)], config("cell"), config("cell", device="cpu_4"), UNEQUAL,
         "cell failed: outputs differ from the float64 reference by 5e-01 (tolerance 1e-05) at "
         "batch 7 with training=False on cpu_1"),
    ],
)  # fmt: skip
def test_judgement_follows_the_certificates(made, a, b, verdict, why):
    judgement = judging(*made).judge(a, b)
    assert judgement.equal == verdict and why in judgement.why


def test_what_was_computed_otherwise_is_not_compared():
    """In another precision; on a device with overrides, which is a device of its own."""

    def on(**overrides):
        made = Overrides.of({name.replace("__", "."): each for name, each in overrides.items()})
        return {"variant": made}

    judge = judging(certificate("tf_2_21") | {"machine": None}).judge
    found = judge(config("block") | on(precision="tf32"), KERAS)
    assert (found.equal, found.why) == (UNKNOWN, "one computes in tf32, the other in float32")
    three = on(device__threads=3)
    made = wrong_gradients("tf_2_21", device="cpu_1 threads=3", **{"device.threads": 3})
    records = (make_record(model="mnist_rnn", build="tf_2_21", overrides={"device.threads": 3}),)
    judged = Certificates(as_read(made), records)
    assert judged.why_not_learning(config("block") | three)
    assert judged.why_not_learning(KERAS | three) is None


def test_the_array_that_differs_most_is_named():
    made = changed_pair(weights=0.5, worst_array="lstm/kernel", first_loss=0.0)
    record = make_record(model="mnist_rnn", build="tf_2_21")
    key = certificate_key(record.run.choices, record.run.config)
    made |= {"schema": 4, "key": key, "tolerance": TOLERANCE["float32"]}
    why = judging(made).judge(config("block"), KERAS).why
    words = "what the first steps change in lstm/kernel differ by 0.5 (allowed 0.0001)"
    assert why == f"keras and block: {words}"


def test_the_table_of_certificates_by_hand():
    made = edited(
        keras={"round_trip": False},
        cell={"no_reference": GELU},
        block={"status": "not_run", "why": "no GPU", "probed": {}, "applied": {},
               "outputs": None, "gradients": None},
    )  # fmt: skip
    made["pairs"][3]["gradients"] = 0.5  # of keras and cell
    implementations = made["implementations"]
    implementations["keras"]["probed"] = {
        "cpu_1": layers([(16, True), (13, True), (16, False)]),
        "cpu_2": {"batches": [], "wrong": None, "why": "it was not tried"},
    }
    implementations["keras"]["probed"]["cpu_1"]["batches"][1]["outputs"] = 8e-6
    unknown = {**steps(), "off": None, "worst": None, "why": "no memory"}
    implementations["keras"]["applied"] = {"cpu_1": steps(0, 2e-7), "cpu_2": unknown}
    table = certified(as_read(made | {"overrides": {"model.units": 8}})).set_index("rnn")
    keras, cell, block = (table.loc[name] for name in ("keras", "cell", "block"))
    assert (keras["model"], keras["cell"], keras["build"]) == ("mnist_rnn", "lstm", "tf_2_21")
    assert str(keras["variant"]) == "units=8"
    assert (keras["status"], keras["why"], keras["round_trip"]) == ("certified", "", False)
    assert (keras["outputs"], keras["gradients"]) == (8e-6, 2e-6)
    assert keras["batches"] == "cpu_1: 16, 13; 16 | cpu_2: it was not tried"
    assert keras["steps"] == "cpu_1: 0 of 30 (2e-07); cpu_2: no memory"
    assert (keras["tolerance_outputs"], keras["tolerance_gradients"]) == (1e-5, 1e-4)
    assert cell["why"] == f"compared with unrolled, cudnn, no reference: {GELU}"
    assert (block["status"], block["why"]) == ("not_run", "no GPU")
    random = certified(as_read(edited(keras={"draws": True}))).set_index("rnn")["why"]
    assert "draws random numbers in its outputs" in random["keras"] and not random["block"]
    assert block["outputs"] is None or block["outputs"] != block["outputs"]
    alone = certified(as_read(alone_with("tf_2_21", outputs=None) | {}))
    assert alone["why"].tolist() == ["", ""]
    compared = pairs(as_read(made)).set_index(["a", "b"])
    wrong = compared.loc[("keras", "cell")]
    assert (wrong["gradients"], wrong["equal"], wrong["why"]) == (0.5, False, "")
    assert compared.loc[("keras", "unrolled"), "equal"] and wrong["build"] == "tf_2_21"


def test_a_success_counts_on_the_machine_of_the_certificate_and_a_failure_on_every_machine():
    """Failures are a property of the code; rounding depends on the processor."""
    made = certificate("tf_2_21")
    on = {name: {"machine": name} for name in ("gpu-box", "other-box")}
    sides = {name: (config("block") | here, KERAS | here) for name, here in on.items()}
    assert judging(made).judge(*sides["gpu-box"]).equal == CERTIFIED
    found = judging(made).judge(*sides["other-box"])
    assert (found.equal, found.why) == (UNKNOWN, "they were certified on another machine, gpu-box")
    wrong = judging(edited(block=failed("outputs are NaN"))).judge(*sides["other-box"])
    assert (wrong.equal, wrong.why) == (UNEQUAL, "block failed: outputs are NaN")


CRASHED = {"outputs": None, "gradients": None, "loss_curve": None, "why": "KeyError: 'bias'"}
GELU = "the float64 reference has no activation gelu"


def changed_pair(build="tf_2_21", remove=False, **changes):
    """A certificate whose pair of `keras` and `block` is changed, or missing."""
    result = certificate(build) | {"machine": None}
    for pair in list(result["pairs"]):
        if (pair["a"], pair["b"]) == ("keras", "block"):
            pair |= changes
            if remove:
                result["pairs"].remove(pair)
    return result


def not_run(why):
    """A certificate whose `block` was not run, so that it is compared with no other one."""
    result = changed_pair(remove=True)
    result["implementations"]["block"] = {"status": "not_run", "why": why}
    return result


def alone_with(build, **changes):
    """A certificate of `keras` and `block` alone, whose pair is changed."""
    result = changed_pair(build, **changes)
    names = {"keras", "block"}
    result["implementations"] = {name: result["implementations"][name] for name in names}
    result["pairs"] = [pair for pair in result["pairs"] if {pair["a"], pair["b"]} == names]
    return result


def without_reference():
    gelu = {"no_reference": GELU}
    return edited(keras=gelu, block=gelu, unrolled=gelu) | {"machine": None}


REFUSED = {"status": "refused", "why": "m.py, line 7: rnn=block does not support activation='relu'"}


@pytest.mark.parametrize(
    ("made", "a", "b", "verdict", "why"),
    [
        (changed_pair(**CRASHED), config("block"), KERAS, UNKNOWN,
         "keras and block were not compared: KeyError: 'bias'"),
        (changed_pair(gradients=None), config("block"), KERAS, UNKNOWN,
         "their gradients were not measured"),
        (changed_pair(loss_curve=None, gradients=0.03), config("block"), KERAS, UNEQUAL,
         "gradients differ by 0.03"),
        (changed_pair(remove=True), config("block"), KERAS, UNKNOWN,
         "block and keras were not compared with each other"),
        (without_reference(), config("block"), KERAS, CERTIFIED,
         f"compared with each other only, no reference: {GELU}"),
        (without_reference(), config("block"), config("block", device="cpu_4"), UNKNOWN, GELU),
        (not_run("no GPU"), config("block"), KERAS, UNKNOWN, "block was not certified: no GPU"),
        (edited(block=REFUSED | {"function_why": REFUSED["why"]}), config("block"), KERAS, UNKNOWN,
         "block was refused: m.py, line 7: rnn=block does not support activation='relu'"),
    ],
)  # fmt: skip
def test_what_was_not_compared_is_not_certified(made, a, b, verdict, why):
    found = judging(made).judge(a, b)
    assert (found.equal, why in found.why) == (verdict, True), found.why


def test_an_implementation_that_agrees_with_none_of_its_build_is_in_doubt_in_others():
    """Its layers agree with the reference, but it may drop what only the training shows."""
    torch = alone_with("tf_1_15", loss_curve=0.5)
    old = config("block", "tf_1_15")
    found = judging(certificate("tf_2_21"), torch).judge(old, KERAS)
    assert found.equal == UNKNOWN
    assert found.why.startswith("in their build, keras and block: loss curve differ by 0.5")
    agrees = judging(certificate("tf_2_21"), alone_with("tf_1_15")).judge(old, KERAS)
    assert agrees.equal == CERTIFIED


@pytest.mark.parametrize(
    ("changes", "expected", "equal"),
    [
        (
            {"noise": {"loss_curve": 1e-5}, "loss_curve": 2e-4},
            (2e-4, 3e-4, CurvesBy.TWIN),
            CERTIFIED,
        ),
        ({"noise": {"loss_curve": 1e-5}, "loss_curve": 4e-4}, (4e-4, 3e-4, CurvesBy.TWIN), UNEQUAL),
        # At least 30 roundings of a loss, in float32.
        (
            {"noise": {"loss_curve": 0.0}, "loss_curve": 3e-6},
            (3e-6, 30 / 2**23, CurvesBy.TWIN),
            CERTIFIED,
        ),
        (
            {"noise": {"loss_curve": 0.0}, "loss_curve": 4e-6},
            (4e-6, 30 / 2**23, CurvesBy.TWIN),
            UNEQUAL,
        ),
        # A training that hardly repeats itself says so: more than the fixed tolerance is allowed.
        (
            {"noise": {"loss_curve": 1e-3}, "loss_curve": 2e-3},
            (2e-3, 3e-2, CurvesBy.TWIN),
            CERTIFIED,
        ),
        # An older certificate has no noise of its loss curve.
        (
            {"noise": {"weights": 1e-3}, "loss_curve": 9e-4},
            (9e-4, 1e-3, CurvesBy.TOLERANCE),
            CERTIFIED,
        ),
        ({"loss_curve": 2e-3}, (2e-3, 1e-3, CurvesBy.TOLERANCE), UNEQUAL),
    ],
)
def test_loss_curves_are_judged_by_what_rounding_explains(changes, expected, equal) -> None:
    found = judging(changed_pair(**changes))
    steps, *judged = found.curves(config("block"), KERAS)
    assert steps == 20 and judged == [*map(pytest.approx, expected[:2]), expected[2]]
    judgement = found.judge(config("block"), KERAS)
    assert judgement.equal == equal
    if equal == UNEQUAL:
        assert "loss curve differ by" in judgement.why


def test_loss_curves_that_no_certificate_compared() -> None:
    for made in (changed_pair(remove=True), changed_pair(**CRASHED)):
        assert judging(made).curves(config("block"), KERAS) is None
    assert judging(changed_pair()).curves(config("block"), config("keras", "tf_1_15")) is None


def test_one_that_failed_leaves_the_others_of_its_build_without_doubt():
    old = alone_with("tf_1_15", loss_curve=0.5)
    old["implementations"]["block"] |= failed("outputs differ")
    found = judging(certificate("tf_2_21"), old).judge(config("keras", "tf_1_15"), KERAS)
    assert (found.equal, found.why) == (CERTIFIED, "both agree with the float64 reference")


def test_a_certificate_of_a_build_as_published_names_that():
    here, published = judging(wrong_gradients("tf_2_21")), config("block", "current") | WIDE
    assert f"block {here.why_not_learning(config('block'))}" == WRONG
    for configuration in (KERAS, config("block", device="cpu_4")):
        assert here.why_not_learning(configuration) is None
    as_published = judging(wrong_gradients("current", **PUBLISHED))
    assert as_published.why_not_learning(config("block", "current")) is None
    why = as_published.why_not_learning(published)
    assert why is not None and why.endswith("(worst 87 %), as published")


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
    entries = wrong["implementations"]
    entries["block op=B"] = entries.pop("block")
    options = [make_record(rnn="block", overrides={"rnn.op": op}) for op in ("A", "B")]
    marked = judging(wrong).mark_wrong_gradients(options)
    assert [each.verdict.status for each in marked] == ["clean", "suspect"]
