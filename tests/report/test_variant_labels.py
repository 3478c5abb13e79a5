"""Labels of variants show what distinguishes them."""

from __future__ import annotations

import re

import pytest

from rnnbench.records.overrides import Overrides
from rnnbench.report.labels import variant_labels


@pytest.mark.parametrize(
    ("variants", "labels"),
    [
        ([], []),
        (["epochs=2"], ["epochs=2"]),
        (["epochs=2, batch=8", "epochs=2, batch=16"], ["batch=8", "batch=16"]),
        (["epochs=2, batch=8", "epochs=2"], ["batch=8", "default batch"]),
        (["", "units=32"], ["default units", "units=32"]),
        (["batch=8, val=${model.batch}", "val=${model.batch}"], ["batch=8", "default batch"]),
        # Without what follows from other keys, these would have one label.
        (["a=${b}", "a=${c}"], ["a=${b}", "a=${c}"]),
        (["sizes=[1,2], x=1", "sizes=[1,3], x=1"], ["sizes=[1,2]", "sizes=[1,3]"]),
        (["x=1, y=1", "x=1, y=2", "x=2, y=2"], ["x=1, y=1", "x=1, y=2", "x=2, y=2"]),
    ],
)
def test_variants(variants: list[str], labels: list[str]) -> None:
    written = [re.findall(r"(\w+)=(\S+?)(?:, |$)", variant) for variant in variants]
    overrides = [Overrides.of({f"model.{key}": value for key, value in each}) for each in written]
    assert list(map(str, overrides)) == [", ".join(sorted(v.split(", "))) for v in variants]
    assert list(variant_labels(overrides).values()) == labels
