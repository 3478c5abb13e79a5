"""Optimizers whose update differs between builds under the same name, so that losses diverge.

- RMSprop divides by √v + ε in Keras 2.0.6 and in ``tf.keras`` of TensorFlow 1 (as torch does), but
  by √(v + ε) in Keras from 2.11 on, where an ε of 1e-8 has the effect of 1e-4.
- If a batch contains a row of an embedding several times, Keras 3 on TensorFlow adds the squares of
  its gradients; all others square the sum. This affects every optimizer that divides by a mean of
  squares.

Adam uses the same update in all builds. They train with Keras's own optimizers, also on torch and
jax: α·m / (√v + ε) with both bias corrections in α (ε̂ of Kingma & Ba 2015, section 2).
``tests/worker/test_worker_seeds.py`` checks all three in each build.

Source: keras/optimizers.py of 2.0.6, optimizer_v2/{rmsprop,adam}.py of TensorFlow 1.15,
keras/src/optimizers/{rmsprop,adam,optimizer}.py of 2.15 and 3 (2.15 adds up repeated rows in
``_deduplicate_sparse_grad``, 3 does not), keras/src/backend/torch/optimizers of 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbench.records.record import Record

EPSILON_OUTSIDE_SQRT = ("keras206_tensorflow1", "keras2_tensorflow1")
SQUARES_PER_OCCURRENCE = ("keras3_tensorflow",)
SQUARE_AVERAGING = ("adam", "adamax", "nadam", "rmsprop", "adagrad", "adadelta")


@dataclass(frozen=True)
class OptimizerDifference:
    """A `model` whose optimizer has a different update in the builds `some` than in `others`; `why`
    is a key of `CAUSES`."""

    model: str
    why: str
    some: tuple[str, ...]
    others: tuple[str, ...]


def _has_rmsprop(model: Mapping[str, Any]) -> bool:
    return _name(model) == "rmsprop"


def _has_embedding(model: Mapping[str, Any]) -> bool:
    return "embedding" in model and _name(model) in SQUARE_AVERAGING


# Cause → whether it affects a model (given its config), and the frameworks of `Parted.some`.
CAUSES: Mapping[str, tuple[Callable[[Mapping[str, Any]], bool], tuple[str, ...]]] = {
    "epsilon": (_has_rmsprop, EPSILON_OUTSIDE_SQRT),
    "rows": (_has_embedding, SQUARES_PER_OCCURRENCE),
}


def optimizer_differences(records: Iterable[Record]) -> list[OptimizerDifference]:
    """The models of `records` that were trained in builds of both kinds, for each cause. A model
    has an embedding if its config has ``model.embedding``."""
    builds: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for record in records:
        model, build = record.run.config.get("model", {}), record.run.config.get("build", {})
        for why, (is_affected, frameworks) in CAUSES.items():
            if is_affected(model):
                sides = builds.setdefault((str(model.get("name")), why), ({}, {}))
                sides[build.get("framework") not in frameworks][str(build.get("name"))] = None
    return [
        OptimizerDifference(model, why, tuple(some), tuple(others))
        for (model, why), (some, others) in builds.items()
        if some and others
    ]


def _name(model: Mapping[str, Any]) -> str:
    return str((model.get("optimizer") or {}).get("name")).lower()
