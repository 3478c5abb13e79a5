"""What a run computes in: asked of the framework, and read back from it.

``float32`` has TF32 switched off, ``tf32`` on; ``mixed_float16`` and ``mixed_bfloat16`` are Keras's
dtype policies (float32 weights, halves in between; products that stay in float32 are without TF32).
"""

DEFAULT = "float32"
MIXED = ("mixed_float16", "mixed_bfloat16")

# Largest relative errors against the float64 reference and between implementations. float32's are
# 20 and more units of its rounding, 6e-8, as it adds up over hundreds of steps. TF32 and float16
# round to 5e-4, bfloat16 to 4e-3; at these, gradients through time lose one more digit.
TOLERANCE = {
    "float32": {"outputs": 1e-5, "gradients": 1e-4, "loss_curve": 1e-3},
    "tf32": {"outputs": 5e-3, "gradients": 2e-2, "loss_curve": 1e-2},
    "mixed_float16": {"outputs": 5e-3, "gradients": 2e-2, "loss_curve": 1e-2},
    "mixed_bfloat16": {"outputs": 4e-2, "gradients": 1.6e-1, "loss_curve": 8e-2},
}


def asked(config):
    """The precision that a run's config asks for."""
    return config.get("precision") or DEFAULT


def policy(config):
    """The name of Keras's dtype policy for it."""
    return asked(config) if asked(config) in MIXED else DEFAULT


def compute_dtype(config):
    """What a layer computes in under `policy`."""
    return policy(config).replace("mixed_", "")


def as_expected(config, told):
    """Whether what the session read back, ``{"policy", "layers", "tf32"}``, is what was asked:
    ``layers`` are the recurrent layers' compute dtypes, ``tf32`` is None where nobody can say."""
    right = told["tf32"] is None or told["tf32"] == (asked(config) == "tf32")
    dtypes = set(told["layers"]) - {compute_dtype(config)}
    return right and told["policy"] == policy(config) and not dtypes
