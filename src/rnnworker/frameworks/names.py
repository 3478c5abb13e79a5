"""The known frameworks with their modules, and those that may be forked after their import. The
identity of a run depends on its own framework only, not on these lists."""

FRAMEWORKS = {
    "keras3_tensorflow": "keras3_tensorflow",
    "keras3_torch": "keras3_torch",
    "keras3_jax": "keras3_jax",
    "keras2_tensorflow2": "keras3_tensorflow",
    "keras2_tensorflow1": "keras2_tensorflow1",
    "keras206_tensorflow1": "keras206_tensorflow1",
    "fake": "fake",
}
# Forked runs train as fast as runs in a new process (`benchmarks/forked.py`).
FORKABLE = ("keras3_tensorflow", "fake")
