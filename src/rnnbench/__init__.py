"""rnnbench: measures which recurrent-network implementation trains fastest, by device and build.

    import rnnbench

    result = rnnbench.compare("mine.py:build", "mine.npz", ("keras", "block"), budget=60)
    result.fastest, result.ratio("block"), result.certificate, result.frame(), result.page

This package is the controller. It expands a grid, starts and supervises one worker process per
run, logs the runs, and writes reports. It never imports TensorFlow, Keras, torch or jax: they
belong to the environment under test, which runs the package ``rnnworker``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnnbench.api.calls import compare, load, predict
    from rnnbench.errors import RnnbenchError
    from rnnbench.report.comparison import Comparison

__version__ = "0.1.0"
__all__ = ["Comparison", "RnnbenchError", "compare", "load", "predict"]

# Loaded when they are used: a process that is alive during a timed run stays small.
_PLACES = {
    "Comparison": "rnnbench.report.comparison",
    "RnnbenchError": "rnnbench.errors",
    "compare": "rnnbench.api.calls",
    "load": "rnnbench.api.calls",
    "predict": "rnnbench.api.calls",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
