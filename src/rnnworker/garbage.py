"""Python's memory before a timed phase."""

import gc


def settle():
    """Collects garbage now and takes what is left out of later collections (Python 3.7 or later),
    so that none of ours falls into what is timed, and none goes through a framework's modules."""
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()
