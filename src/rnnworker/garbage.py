"""Prepares Python's garbage collector for a timed phase."""

import gc


def collect_and_freeze():
    """Collects garbage and, from Python 3.7 on, freezes the remaining objects. Timed phases then
    contain no collection of earlier garbage, and later collections skip a framework's modules."""
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()
