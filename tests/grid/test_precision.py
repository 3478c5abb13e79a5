"""The precision of a run: what exists where, and that the default changes no identity."""

from __future__ import annotations

from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.identity import identity_of
from rnnbench.grid.precision import check_precision, unmet_precision
from rnnbench.planning.certificates import function_overrides
from rnnbench.running.verdict import judge
from rnnworker import precision
from tests.planning.test_planning_certificates import cell


def config(**changes: Any) -> dict[str, Any]:
    return {
        "device": {"kind": "gpu"},
        "build": {"framework": "keras3_torch"},
        "rnn": {"implementation": "keras"},
        **changes,
    }


def test_a_precision_that_does_not_exist_is_skipped_with_its_reason() -> None:
    assert unmet_precision(config()) is None
    assert unmet_precision(config(precision="tf32")) is None
    cpu = config(precision="tf32", device={"kind": "cpu"})
    assert unmet_precision(cpu) == "TF32 is an arithmetic of NVIDIA GPUs"
    old = config(precision="mixed_float16", build={"framework": "keras2_tensorflow1"})
    assert "no dtype policy mixed_float16" in str(unmet_precision(old))
    with pytest.raises(ConfigError, match="precision='half'"):
        check_precision(config(precision="half"), "grid")


def test_float32_is_what_it_was_before_there_was_a_choice() -> None:
    plain = identity_of({"a": {}}, None, None, "w")
    assert identity_of({"a": {}, "precision": "float32"}, None, None, "w") == plain
    assert identity_of({"a": {}, "precision": "tf32"}, None, None, "w") != plain


def test_each_precision_has_certificates_of_its_own() -> None:
    half = cell(precision="mixed_float16")
    object.__setattr__(half, "overrides", {"precision": "mixed_float16"})
    assert function_overrides(half) == {"precision": "mixed_float16"}


@pytest.mark.parametrize(
    ("asked", "policy", "layers", "tf32", "right"),
    [
        ("float32", "float32", ["float32"], False, True),
        ("float32", "float32", ["float32"], True, False),
        ("float32", "float32", ["float32"], None, True),
        ("tf32", "float32", ["float32"], "in part", False),
        ("mixed_bfloat16", "mixed_bfloat16", ["bfloat16"], False, True),
        ("mixed_bfloat16", "mixed_bfloat16", ["float32"], False, False),
    ],
)
def test_what_was_used_is_held_against_what_was_asked(asked, policy, layers, tf32, right) -> None:
    told = {"policy": policy, "layers": layers, "tf32": tf32}
    found = precision.as_expected({"precision": asked}, told)
    assert found is right
    verdict = judge((), (), {"precision": {**told, "asked": asked, "as_asked": found}})
    assert ("wrong_precision" in {one.code for one in verdict.reasons}) is not right
