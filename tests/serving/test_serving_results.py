"""Turns → medians, percentiles, ratios and sentences."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from rnnbench.commands import prediction
from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import known_runtimes
from rnnbench.prediction.measure import Job, Outcome, Turn
from rnnbench.prediction.messages import Difference, Prepared, Said
from rnnbench.prediction.results import ratios
from rnnbench.prediction.results import results_of as results_with_name
from rnnbench.records.predictions import ChosenRuntime, Results
from rnnbench.report.prediction import (
    code_of,
    fact_rows,
    labels_of,
    prediction_answers,
    prediction_conditions,
    section_of,
    speed_rows,
)
from rnnbench.sources.prices import Price, PriceList
from rnnbench.tables.stats import mean_interval
from rnnserve import PRECISIONS
from tests.conftest import ROOT

CONFIG = {
    "model": {"function": "m.py:build"},
    "device": {"kind": "cpu", "threads": 1},
    "build": {"name": "x"},
}
STARTED = "20261129T120000_000000Z"


def runtime_named(name: str) -> ChosenRuntime:
    """``NAME_PRECISION`` has this precision."""
    implementation, _, precision = name.partition("_")
    options = {"precision": precision} if precision in PRECISIONS else {}
    return ChosenRuntime(name=name, implementation=implementation, options=options)


NAMED = [runtime_named("framework"), runtime_named("litert")]
JOB = Job(CONFIG, NAMED, [1], Path(), Path(), 3, 2)
PREPARED = {
    "steps": 10,
    "reference": "float64 formulas",
    "biases_changed": 1,
    "cases": [{"name": "batch 1", "batch": 1, "is_timed": True}],
    "bounds": [1e-5],
    "lower_bounds": {},
    "validation": None,
    "runtimes": {},
}


def results_of(job: Job, prepared: dict, outcomes: list[Outcome]) -> Results:
    read = msgspec.convert(prepared, Prepared)
    return results_with_name(job, "m-build", read, outcomes, STARTED)


def turns_of(seconds: list[list[float]], calls: int = 10, **more: Any) -> list[Turn]:
    """Turns by round and cycle, with equal calls."""
    found = []
    for number, cycles in enumerate(seconds):
        for cycle, each in enumerate(cycles):
            facts = {"cpu": calls * each, "threads": 1, "slept": 0.0} | more
            found.append(Turn(number, cycle, 1, [each] * calls, **facts))
    return found


def outcome(name: str, turns: list[Turn], **differences: Any) -> Outcome:
    fact = {"case": "batch 1", "call": 0, "difference": 1e-7, "bound": 1e-5} | differences
    said = Said(None, (Difference(**fact),), 1.0, 10, {}, f"import {name}")
    return Outcome(runtime_named(name), certificate=said, turns=turns, peak_bytes=100)


SLOW = [[8.0, 8.0], [16.0, 16.0], [8.0, 8.0]]
FAST = [[2.0, 2.0], [4.0, 4.0], [1.0, 1.0]]


def test_a_ratio_is_of_turns_in_one_cycle_and_of_rounds() -> None:
    found = ratios(turns_of(FAST), turns_of(SLOW), 1)
    assert found == [4.0, 4.0, 8.0]
    results = results_of(
        JOB, PREPARED, [outcome("framework", turns_of(SLOW)), outcome("litert", turns_of(FAST))]
    )
    ratio = results.runtimes[1].batches[0].ratio
    assert ratio is not None
    expected = mean_interval(found)
    assert (ratio.estimate, ratio.low, ratio.high) == (
        expected.estimate,
        expected.low,
        expected.high,
    )
    assert ratio.estimate == pytest.approx(statistics.geometric_mean(found))
    assert results.runtimes[0].batches[0].ratio is None


def test_one_disturbed_cycle_does_not_move_a_round() -> None:
    disturbed = [[2.0, 50.0, 2.0]]
    assert ratios(turns_of(disturbed), turns_of([[8.0, 8.0, 8.0]]), 1) == [4.0]


def test_a_single_round_has_no_interval() -> None:
    results = results_of(
        JOB,
        PREPARED,
        [outcome("framework", turns_of([[8.0]])), outcome("litert", turns_of([[2.0]]))],
    )
    ratio = results.runtimes[1].batches[0].ratio
    assert ratio is not None and ratio.low is None
    assert results.fastest[0].also == ["framework"]


def test_percentiles_are_of_single_calls_and_need_enough() -> None:
    calls = [float(number) for number in range(1, 101)]
    turn = Turn(0, 0, 1, calls, 1.0, 1, 0.0)
    batch = results_of(JOB, PREPARED, [outcome("framework", [turn])]).runtimes[0].batches[0]
    assert (batch.p50, batch.p95, batch.p99) == (50.0, 95.0, None)
    assert batch.samples_per_second == pytest.approx(1 / 50.5)
    assert batch.us_per_step == pytest.approx(50.5e6 / 10)


def test_what_distorts_is_said() -> None:
    busy = turns_of(FAST, cpu=40.0, threads=3, slept=0.5)
    notes = results_of(JOB, PREPARED, [outcome("framework", busy)]).runtimes[0].notes
    assert notes[0] == f"used {6 * 40 / sum(map(sum, FAST)) / 10:.2f} cores, not 1"
    assert notes[1].startswith("up to 3 threads")
    assert notes[2] == "worked for 500 ms between two turns"
    assert results_of(JOB, PREPARED, [outcome("framework", turns_of(FAST))]).runtimes[0].notes == []


def test_the_answer_names_who_is_fastest_who_is_not_equal_and_the_lines() -> None:
    outcomes = [
        outcome("framework", turns_of(SLOW)),
        outcome("litert", turns_of(FAST)),
        outcome("openvino", [], difference=0.2),
        Outcome(runtime_named("onnxruntime"), refused="layer lstm: stateful"),
    ]
    results = results_of(JOB, PREPARED, outcomes)
    rows = list(fact_rows([results], {"m-build": "m"}))
    assert [row["equal"] for row in rows] == [
        "yes",
        "yes",
        "≠, not timed: batch 1: off by 0.2",
        "refused: layer lstm: stateful",
    ]
    (answer,) = prediction_answers([results])
    # The ratios of rounds are 4, 4 and 8: exp(mean ± 4.303 · s / √3) of their logarithms.
    assert answer.speed_sentence == (
        "For one sample, `litert` answers in 2000 ms, 5.04 times as fast as `framework` (1.86 to "
        "13.62); all that were timed computed the same function, and `openvino` does not."
    )
    assert code_of(results) == "# litert\nimport litert"


def test_several_models_have_a_sentence_each_and_equality_is_said_once() -> None:
    equal = results_of(
        JOB, PREPARED, [outcome("framework", turns_of(SLOW)), outcome("litert", turns_of(FAST))]
    )
    outcomes = [outcome("framework", turns_of(SLOW)), outcome("openvino", [], difference=0.2)]
    unequal = results_of(JOB, PREPARED, outcomes)
    named = [
        msgspec.structs.replace(each, name=name, choices={"model": name})
        for name, each in (("a", equal), ("b", unequal))
    ]
    first, second = prediction_answers(named)
    assert first.speed_sentence.endswith("as fast as `framework` (1.86 to 13.62).")
    assert not first.further
    assert second.speed_sentence.endswith("the same function, and `openvino` does not.")
    assert second.further.startswith("All that were timed computed the same function. The table")
    nothing = results_of(JOB, PREPARED, [outcome("framework", [], difference=0.2)])
    none = [msgspec.structs.replace(nothing, name=name) for name in ("a", "b")]
    assert not any(answer.further for answer in prediction_answers(none))


def page_of(results: Results, folder: Path) -> str:
    return prediction._write_page(results, "predict-m", "rnnbench compare", folder).read_text()


def test_the_page_has_charts_tables_the_answer_and_the_lines(tmp_path: Path) -> None:
    outcomes = [outcome("framework", turns_of(SLOW)), outcome("litert", turns_of(FAST))]
    results = results_of(JOB, PREPARED, outcomes)
    page = page_of(results, tmp_path)
    assert "5.04 times as fast as <code>framework</code>" in page
    assert '<pre tabindex="0"># litert\nimport litert</pre>' in page
    assert page.count("<svg") == 2
    assert "µs / timestep" in page
    assert "No run has produced" not in page
    (litert,) = pd.read_csv(tmp_path / "tables/prediction.csv").query("runtime == 'litert'").values
    assert "litert" in litert


def test_the_first_screen_says_what_may_be_as_fast_and_where_the_lines_are(drawn_charts) -> None:
    names = ["framework", "onnxruntime_operator", "litert"]
    turns = [turns_of(SLOW), turns_of(FAST), turns_of(FAST)]
    outcomes = [outcome(name, own) for name, own in zip(names, turns, strict=True)]
    named = []
    for model in ("a", "a_model_with_a_long_name_of_its_own_and_another"):
        results = results_of(JOB, PREPARED, outcomes)
        named.append(msgspec.structs.replace(results, name=model, choices={"model": model}))
    first, _ = prediction_answers(named)
    rival = "`litert`" if "`onnxruntime_operator` answers" in first.speed_sentence else "`onnx"
    assert f"(1.86 to 13.62), and {rival}" in first.speed_sentence
    assert first.speed_sentence.endswith(" may be as fast.")
    assert prediction_conditions(named)["Use it"].endswith("below, under Prediction")
    assert "Use it" not in prediction_conditions(
        [results_of(JOB, PREPARED, [outcome("framework", [], difference=0.2)])]
    )
    # A title is cut off on a phone if one of its lines is longer.
    for each in section_of(named, None).figures:
        lines = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", each.svg)
        assert "ms per call, p50 to p99:" in lines or "Samples per second:" in lines
        assert max(map(len, lines)) <= 40
        assert "\n" not in each.title


def test_every_size_of_batch_has_a_sentence() -> None:
    turns = [turns_of([[2.0]])[0], turns_of([[3.0]])[0]]
    turns[1].batch = 8
    (answer,) = prediction_answers([results_of(JOB, PREPARED, [outcome("framework", turns)])])
    assert answer.speed_sentence.startswith("For one sample, `framework` answers in 2000 ms; ")
    assert answer.further == "For 8 samples, `framework` answers in 3000 ms."


def test_cost_is_of_the_device_s_price_and_a_million_samples() -> None:
    results = results_of(JOB, PREPARED, [outcome("framework", turns_of([[0.36]]))])
    on_device = msgspec.structs.replace(results, choices={"device": "cpu_1"})
    price = Price("cpu_1", "on_demand", 2.0)
    prices = PriceList("p", "title", "2026", "source", (price,))
    (row,) = speed_rows([on_device], {"m-build": "m"}, prices)
    # 0.36 s for one sample are 100 hours for a million.
    assert row["usd_per_million"] == pytest.approx(200.0)


def test_models_are_named_by_what_differs() -> None:
    results = results_of(JOB, PREPARED, [outcome("framework", turns_of([[8.0]]))])
    named = []
    for model, cell, units in (
        ("m", "lstm", 8),
        ("m", "gru", 8),
        ("m", "gru", 16),
        ("n", "gru", 9),
    ):
        choices = {"model": model, "cell": cell, "build": "serving"}
        overrides = {"model.units": units, "model.features": 4}
        name = f"{model}{cell}{units}"
        named.append(
            msgspec.structs.replace(results, name=name, choices=choices, overrides=overrides)
        )
    assert list(labels_of(named).values()) == [
        "m · lstm · units=8",
        "m · gru · units=8",
        "m · gru · units=16",
        "n · gru",
    ]


def test_an_error_in_an_answer_is_unequal() -> None:
    wrong = Outcome(
        runtime_named("litert"),
        certificate=Said(differences=(Difference("longer", 1, error="x"),)),
    )
    assert not wrong.is_right
    results = results_of(JOB, PREPARED, [outcome("framework", turns_of(SLOW)), wrong])
    assert results.runtimes[1].unequal == "longer, asked again: x"


def test_nothing_is_equal_that_was_not_asked() -> None:
    assert not Outcome(runtime_named("litert")).is_right


FASTEST = [[1.0, 1.0], [2.0, 2.0], [0.5, 0.5]]
VALIDATED = PREPARED | {
    "lower_bounds": {"int8": [0.1]},
    "validation": {"name": "accuracy", "value": 0.97, "samples": 360, "loss": "-", "case": 0},
}


def lower(turns: list[Turn], **differences: Any) -> Outcome:
    found = outcome("litert_int8", turns, **{"difference": 0.03, "bound": 0.1} | differences)
    found.certificate = msgspec.structs.replace(found.certificate, validation=0.95)
    return found


def test_a_lower_precision_is_never_the_fastest_equal_one() -> None:
    outcomes = [outcome("framework", turns_of(SLOW)), outcome("litert", turns_of(FAST))]
    outcomes.append(lower(turns_of(FASTEST)))
    results = results_of(JOB, VALIDATED, outcomes)
    (fastest,) = results.fastest
    assert (fastest.runtime, fastest.also) == ("litert", [])
    assert fastest.lower is not None and fastest.lower.runtime == "litert_int8"
    assert fastest.lower.ratio.estimate == pytest.approx(2.0)
    assert code_of(results) == "# litert\nimport litert"
    (answer,) = prediction_answers([results])
    assert answer.speed_sentence.endswith(
        "all that were timed in float32 computed the same function."
    )
    assert answer.further == (
        "At lower precision, `litert_int8` is the fastest for one sample: 1000 ms, 2.00 times as "
        "fast as `litert` (2.00 to 2.00). Its largest difference is 0.03, its accuracy for 360 "
        "samples 0.9500 in place of 0.9700."
    )
    first, second = prediction_answers([msgspec.structs.replace(results, name=n) for n in "ab"])
    assert first.further.startswith("At lower precision, `litert_int8`")
    assert "All that were timed in float32 computed the same function." in second.further
    assert second.further.startswith("At lower precision, `litert_int8`")


def test_the_page_has_precision_and_accuracy_beside_the_framework_s(tmp_path: Path) -> None:
    outcomes = [outcome("framework", turns_of(SLOW)), lower(turns_of(FASTEST))]
    results = results_of(JOB, VALIDATED, outcomes)
    first, second = fact_rows([results], {"m-build": "m"})
    assert (first["precision"], first["equal"], first["validation"]) == ("float32", "yes", "0.9700")
    assert (second["precision"], second["equal"]) == ("int8", "up to int8")
    assert (second["difference"], second["validation"]) == (0.03, "0.9500")
    page = page_of(results, tmp_path)
    assert "Accuracy is that of 360 validation samples" in page
    assert page.index("up to int8") < page.index("Lower precision is another")  # before its section
    assert "Lower precision is another accuracy of the same function" in page
    unknown = results_of(JOB, VALIDATED | {"validation": None}, outcomes)
    assert "Validation is unknown" in page_of(unknown, tmp_path)
    alone = results_of(JOB, PREPARED, outcomes[:1])
    assert "Lower precision" not in page_of(alone, tmp_path)


def test_a_lower_precision_that_gains_nothing_is_not_said_to_be_faster() -> None:
    outcomes = [outcome("framework", turns_of(FAST)), lower(turns_of(FAST))]
    (answer,) = prediction_answers([results_of(JOB, VALIDATED, outcomes)])
    assert "2000 ms. It is not shown to be faster than `framework`: 1.00 times" in answer.further


def test_a_difference_beyond_rounding_is_another_function() -> None:
    wrong = lower([], difference=0.4)
    assert not wrong.is_right and lower([]).is_right
    results = results_of(JOB, VALIDATED, [outcome("framework", turns_of(SLOW)), wrong])
    why = "batch 1: off by 0.4, of which rounding to int8 explains 0.1"
    assert results.runtimes[1].unequal == why
    assert results.fastest[0].lower is None
    (answer,) = prediction_answers([results])
    assert answer.speed_sentence.endswith("and `litert_int8` does not.") and not answer.further


def test_a_lower_precision_is_in_the_table_if_nothing_else_was_timed() -> None:
    outcomes = [Outcome(runtime_named("framework"), refused="no"), lower(turns_of(FAST))]
    results = results_of(JOB, VALIDATED, outcomes)
    assert results.fastest == []
    (row,) = speed_rows([results], {"m-build": "m"}, None)
    assert row["runtime"] == "litert_int8"


def test_no_right_answer_is_no_speed() -> None:
    results = results_of(JOB, PREPARED, [outcome("framework", [], difference=math.inf)])
    (answer,) = prediction_answers([results])
    assert answer.speed_sentence == "No runtime gave the right answers, so nothing was timed."


def test_the_file_is_read_back_as_its_type() -> None:
    results = results_of(JOB, PREPARED, [outcome("framework", turns_of(SLOW))])
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


@pytest.mark.parametrize(
    ("names", "says"),
    [(["framework"], "no comparison"), (["framework", "onnxruntim"], "did you mean onnxruntime?")],
)
def test_wrong_runtimes_are_refused(names: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        known_runtimes(names, [ROOT / "conf"], Path(), "here")
    assert says in str(raised.value)


def test_sizes_of_batches() -> None:
    assert prediction._batches("8,1,8") == [8, 1, 8]
    with pytest.raises(ConfigError):
        prediction._batches("8,a")
