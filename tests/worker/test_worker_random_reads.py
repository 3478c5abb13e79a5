"""The random reads that are timed after each turn."""

from __future__ import annotations

import pytest

from rnnworker import random_reads


def test_a_turn_on_a_cpu_has_the_seconds_of_the_reads() -> None:
    seconds = random_reads.timer({"config": {"device": {"kind": "cpu"}}})
    assert 1e-6 < seconds() < 1 and seconds() is not seconds()


@pytest.mark.parametrize("device", [{"kind": "gpu"}, {}])
def test_on_a_gpu_it_says_nothing(device) -> None:
    assert random_reads.timer({"config": {"device": device}})() is None
