"""The precision of a run, requested from the framework and read back from it, and the errors that
certificates tolerate.

``float32`` disables TF32, ``tf32`` enables it; ``mixed_float16`` and ``mixed_bfloat16`` are Keras's
dtype policies (float32 weights, 16-bit computation; remaining float32 products do not use TF32).
"""

from typing import Dict, Set

from rnnworker.json_types import Config, Json

DEFAULT = "float32"
MIXED = ("mixed_float16", "mixed_bfloat16")


Tolerance = Dict[str, float]  # the largest error of each part of a certificate


# Largest accepted relative errors against the float64 reference and between implementations. Those
# of float32 are over 20 times its rounding error, 6e-8, which accumulates over hundreds of steps.
# TF32 and float16 round to 5e-4, bfloat16 to 4e-3; gradients through time lose one more digit.
# ``weights``: of the changes in the first steps, which are made of gradients.
_HALF: Tolerance = {
    "outputs": 5e-3,
    "gradients": 2e-2,
    "loss_curve": 1e-2,
    "first_loss": 1e-3,
    "weights": 2e-2,
}
TOLERANCE: Dict[str, Tolerance] = {
    "float32": {
        "outputs": 1e-5,
        "gradients": 1e-4,
        "loss_curve": 1e-3,
        "first_loss": 1e-6,
        "weights": 1e-4,
    },
    "tf32": _HALF,
    "mixed_float16": _HALF,
    "mixed_bfloat16": {
        "outputs": 4e-2,
        "gradients": 1.6e-1,
        "loss_curve": 8e-2,
        "first_loss": 8e-3,
        "weights": 1.6e-1,
    },
}
# A unit in the last place of what is computed, of a number between 1 and 2.
LAST_PLACE = {
    "float32": 2.0**-23,
    "tf32": 2.0**-10,
    "mixed_float16": 2.0**-10,
    "mixed_bfloat16": 2.0**-7,
}
# How many times its noise something may differ in two trainings: their loss curves, and the first
# loss and the change of a weight if that is more than their tolerance (`weights`).
NOISES = 30
# In place of the relative error of what is NaN or infinite: JSON has neither, and a missing error
# reads as not measured.
NOT_FINITE = 1e10


def allowed_apart(noise: float) -> float:
    """Returns the largest relative difference of the loss curves of two equal trainings, of which
    one differs by `noise` if its weights begin one rounding away. It is at least that of a loss,
    which is a float32 whatever the layers compute in. Measured by ``benchmarks/parting.py``."""
    return NOISES * max(noise, LAST_PLACE["float32"])


def batch_sizes(samples: int, batch: int) -> Set[int]:
    """Returns the sizes of the batches that `samples` are split into, whole ones and the last: a
    certificate holds for those that it tested."""
    sizes = {min(batch, samples), samples % batch}
    return sizes - {0}


def requested_precision(config: Config) -> str:
    requested: str = config.get("precision") or DEFAULT
    return requested


def policy(config: Config) -> str:
    requested = requested_precision(config)
    if requested in MIXED:
        return requested
    return DEFAULT


def computed_in(config: Config) -> str:
    """Returns the dtype in which the layers of a run compute."""
    return policy(config).replace("mixed_", "")


def as_expected(config: Config, facts: Json) -> bool:
    """Returns whether `facts` read back from the session, ``{"policy", "layers", "tf32"}``, match
    `config`: ``layers`` are compute dtypes of recurrent layers, ``tf32`` is None if unknown."""
    if facts["policy"] != policy(config):
        return False
    if set(facts["layers"]) - {computed_in(config)}:
        return False
    is_tf32 = requested_precision(config) == "tf32"
    return facts["tf32"] in (None, is_tf32)
