"""Which RNN implementations there are; no part of the identity of a run, which has one of them."""

IMPLEMENTATIONS = (
    "keras",
    "auto",
    "cudnn",
    "cell",
    "unrolled",
    "block",
    "block_cell",
    "cudnn_raw",
    "cudnn_compatible",
    "legacy_cudnn",
    "contrib",
    "contrib_cudnn",
    "native",
    "none",
    "fake",
)
