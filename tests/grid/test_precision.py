"""The precision of a run: supported combinations, identities, and the check against a request."""

from __future__ import annotations

from typing import Any

import pytest

from rnnbench.grid.point import identity_of
from rnnbench.grid.requirements import unmet_precision
from rnnbench.records.keys import certificate_key
from rnnbench.running.verdict import judge
from rnnworker import precision
from tests.planning.test_planning_certificates import point


def config(**changes: Any) -> dict[str, Any]:
    return {
        "device": {"kind": "gpu"},
        "build": {"framework": "keras3_torch"},
        "rnn": {"implementation": "keras"},
        **changes,
    }


def test_an_unsupported_precision_is_skipped_with_its_reason() -> None:
    assert unmet_precision(config()) is None
    assert unmet_precision(config(precision="tf32")) is None
    cpu = config(precision="tf32", device={"kind": "cpu"})
    assert unmet_precision(cpu) == "TF32 exists on NVIDIA GPUs only"
    old = config(precision="mixed_float16", build={"framework": "keras2_tensorflow1"})
    assert "no dtype policy mixed_float16" in str(unmet_precision(old))


def test_the_default_precision_is_not_part_of_the_identity() -> None:
    plain = identity_of({"a": {}}, None, None, "w")
    assert identity_of({"a": {}, "precision": "float32"}, None, None, "w") == plain
    assert identity_of({"a": {}, "precision": "tf32"}, None, None, "w") != plain


def test_each_precision_has_separate_certificates() -> None:
    points = point(), point(precision="mixed_float16"), point(precision="tf32")
    assert len({certificate_key(each.choices, each.config) for each in points}) == 3


@pytest.mark.parametrize(
    ("requested", "policy", "layers", "tf32", "as_requested"),
    [
        ("float32", "float32", ["float32"], False, True),
        ("float32", "float32", ["float32"], True, False),
        ("float32", "float32", ["float32"], None, True),
        ("tf32", "float32", ["float32"], "in part", False),
        ("mixed_bfloat16", "mixed_bfloat16", ["bfloat16"], False, True),
        ("mixed_bfloat16", "mixed_bfloat16", ["float32"], False, False),
    ],
)
def test_the_precision_used_is_compared_with_the_request(
    requested, policy, layers, tf32, as_requested
) -> None:
    used = {"policy": policy, "layers": layers, "tf32": tf32}
    assert precision.as_expected({"precision": requested}, used) is as_requested
    facts = {"precision": {**used, "asked": requested, "as_asked": as_requested}}
    reasons = judge((), (), facts).reasons
    assert ("wrong_precision" in {reason.code for reason in reasons}) is not as_requested
