"""``rnnbench weights SOURCE --to LAYOUT -o TARGET``: a checkpoint in another layout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    from rnnbench.weights.files import LAYOUTS, read_weights, write_weights
    from rnnbench.weights.layers import Cell

    parser = argparse.ArgumentParser(
        prog="rnnbench weights",
        description="A checkpoint with its LSTM and GRU layers in another layout: of the CuDNN "
        "layers of Keras 2, of Keras's own layers, or rnnbench's canonical arrays.",
    )
    parser.add_argument("source", type=Path, help=".h5 of Keras 2, .keras of Keras 3, .npz of ours")
    parser.add_argument("--to", required=True, choices=LAYOUTS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TARGET")
    options = parser.parse_args(list(arguments))
    layers = read_weights(options.source)
    write_weights(layers, options.output, options.to)
    for layer in layers:
        cells = [part for part in layer.parts if isinstance(part, Cell)]
        print(f"{layer.name}: {_words(cells) or 'as it is'}")
    return 0


def _words(cells: Sequence) -> str:
    kinds = {4: "LSTM", 3: "GRU", 1: "SimpleRNN"}
    return ", ".join(
        f"{kinds.get(cell.gates, 'recurrent')} of {cell.recurrent.shape[0]} units"
        + ("" if cell.bias is None or cell.bias.ndim == 1 else ", reset after")
        for cell in cells
    )
