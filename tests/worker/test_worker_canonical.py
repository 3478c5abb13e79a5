from __future__ import annotations

import numpy

from rnnworker import canonical_weights


def test_the_digest_depends_on_values_names_and_shapes_and_not_on_memory_layout() -> None:
    zeros = {"kernel": numpy.zeros((2, 3)), "bias": numpy.zeros(3)}
    changed = {**zeros, "kernel": numpy.array([[0, 0, 0], [0, 0, 1e-7]])}
    reshaped = {**zeros, "kernel": numpy.zeros((3, 2))}
    renamed = {"weights": zeros["kernel"], "bias": zeros["bias"]}
    different = [canonical_weights.digest([w]) for w in (zeros, changed, reshaped, renamed)]
    assert len(set(different)) == 4
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    layouts = (array, numpy.asfortranarray(array), array.astype("float64"))
    assert len({canonical_weights.digest([{"kernel": stored}]) for stored in layouts}) == 1
