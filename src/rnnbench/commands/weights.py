"""Convert the LSTM and GRU layers of a checkpoint to another layout.

The layouts are those of the CuDNN layers of Keras 2, of Keras's own layers, and rnnbench's
canonical arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.arguments import command_parser
from rnnbench.plain_text import plain
from rnnbench.records.store import write_bytes


def main(arguments: Sequence[str]) -> int:
    from rnnbench.weights.files import LAYOUTS, bytes_of, read_weights
    from rnnbench.weights.layers import Cell

    parser = command_parser("weights", __doc__)
    parser.add_argument(
        "source", type=Path, help="a .h5 of Keras 2, a .keras of Keras 3 or a canonical .npz"
    )
    parser.add_argument("--to", required=True, choices=LAYOUTS, help="the layout to write")
    parser.add_argument(
        *("-o", "--output"), type=Path, required=True, metavar="TARGET", help="the file to write"
    )
    options = parser.parse_args(list(arguments))
    layers = read_weights(options.source)
    write_bytes(options.output, bytes_of(layers, options.to))
    for layer in layers:
        cells = [part for part in layer.parts if isinstance(part, Cell)]
        print(plain(f"{layer.name}: {_description(cells) or 'unchanged'}"))
    return 0


def _description(cells: Sequence) -> str:
    kinds = {4: "LSTM", 3: "GRU", 1: "SimpleRNN"}
    return ", ".join(
        f"{kinds.get(cell.gates, 'recurrent')} of {cell.recurrent.shape[0]} units"
        + ("" if cell.bias is None or cell.bias.ndim == 1 else ", reset after")
        for cell in cells
    )
