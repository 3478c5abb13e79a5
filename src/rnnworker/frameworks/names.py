"""Which frameworks there are; no part of the identity of a run, which has one of them."""

FRAMEWORKS = (
    "keras3_tensorflow",
    "keras3_torch",
    "keras3_jax",
    "keras2_tensorflow2",
    "keras2_tensorflow1",
    "keras206_tensorflow1",
    "fake",
)
