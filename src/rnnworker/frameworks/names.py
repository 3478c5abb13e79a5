"""Which frameworks there are, and which of them may be forked once imported; no part of the
identity of a run, which has one of them."""

FRAMEWORKS = (
    "keras3_tensorflow",
    "keras3_torch",
    "keras3_jax",
    "keras2_tensorflow2",
    "keras2_tensorflow1",
    "keras206_tensorflow1",
    "fake",
)

# Runs that were forked train as fast as those that were started (`benchmarks/forked.py`).
FORKS = ("keras3_tensorflow", "fake")
