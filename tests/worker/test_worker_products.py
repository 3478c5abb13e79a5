"""The products of known layers, computed by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rnnworker import products


def layer(kind: str = "other", rows: int | None = 1, steps=None, **shapes) -> dict:
    facts = {"name": "layer", "kind": kind, "steps": steps, "rows": rows}
    return {**facts, "shapes": list(shapes.items())}


SHAPES = {"bias": [256], "kernel": [8, 256], "recurrent": [64, 256]}
LSTM = layer("recurrent", steps=8, **SHAPES)
DIRECTIONS = ("forward", "backward")
BOTH = {f"{direction}_{name}": SHAPES[name] for direction in DIRECTIONS for name in SHAPES}
STACKED = {"layer0_kernel": [8, 256], "layer0_recurrent": [64, 256]}
STACKED |= {"layer1_kernel": [64, 256], "layer1_recurrent": [64, 256]}
DENSE = layer("dense", kernel=[64, 10], bias=[10])
EMBEDDING = layer("embedding", rows=5, embeddings=[100, 8])
NORM, CONV = layer(gamma=[64], beta=[64]), layer(kernel=[3, 3, 1, 8])
RECURRENT_FLOPS, DENSE_FLOPS = 2 * 8 * (8 * 256 + 64 * 256), 2 * 64 * 10


@pytest.mark.parametrize(
    ("layers", "flops"),
    [
        ([LSTM, DENSE], RECURRENT_FLOPS + DENSE_FLOPS),
        ([EMBEDDING, layer("recurrent", steps=8, **BOTH)], 2 * RECURRENT_FLOPS),
        ([layer("recurrent", steps=8, **STACKED)], 2 * 8 * (8 * 256 + 3 * 64 * 256)),
        ([NORM, DENSE], DENSE_FLOPS),
        ([NORM, {**DENSE, "rows": 7}], 7 * DENSE_FLOPS),
        ([CONV, NORM, DENSE], None),
        ([{**LSTM, "steps": None}, DENSE], None),
        ([{**DENSE, "rows": None}, LSTM], None),
    ],
)
def test_products_of_layers_by_hand(layers: list[dict], flops: int | None) -> None:
    assert products.forward_flops(layers) == flops


def test_a_model_that_states_no_shapes_has_no_count() -> None:
    """Of a subclassed model, Keras knows the weights but not the shapes between layers."""

    def no_shapes(layer: object) -> None:
        raise AttributeError("The layer has never been called")

    described = {name: LSTM[name] for name in ("name", "kind", "shapes")}
    session = SimpleNamespace(
        weighted=lambda: [SimpleNamespace(name="layer")],
        layer_shapes=no_shapes,
    )
    assert products.facts_of(session, [described]) == {"flops_per_sample": None, "timesteps": None}
