"""A model as a ``torch.nn.Module``, from ``model.json`` and ``model.npz`` in the same folder.

    from torch_module import Model

    model = Model("folder")
    outputs = model([torch.from_numpy(array) for array in arrays])

Torch and NumPy are all that it needs: the export of `torch_eager` copies it.
"""

import json
import warnings
from pathlib import Path

import numpy
import torch
from torch import nn

FUNCTIONS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "softplus": nn.functional.softplus,
    "softsign": nn.functional.softsign,
    "softmax": lambda x: torch.softmax(x, -1),
}
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Recurrent(nn.Module):
    """An LSTM, GRU or RNN in one direction or both."""

    def __init__(self, features, cell, units, both, backwards, sequences, options):
        super().__init__()
        self.layer = CELLS[cell](features, units, batch_first=True, bidirectional=both, **options)
        self.backwards = backwards
        self.sequences = sequences

    def forward(self, x):
        if self.backwards:
            x = torch.flip(x, [1])
        outputs, last = self.layer(x)
        if self.sequences:
            return outputs
        if isinstance(last, tuple):
            last = last[0]
        if len(last) == 2:
            return torch.cat([last[0], last[1]], -1)
        return last[0]


class Activation(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.activation = activation

    def forward(self, x):
        return FUNCTIONS[self.activation](x)


class Embedding(nn.Embedding):
    def forward(self, x):
        return super().forward(x.long())


class Concatenate(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, *parts):
        return torch.cat(parts, self.axis)


KINDS = (Recurrent, nn.Linear, Activation, Embedding, Concatenate)


class Model(nn.Module):
    """A list of arrays → a list of arrays. `folder`: has the two files."""

    def __init__(self, folder):
        super().__init__()
        described = json.loads((Path(folder) / "model.json").read_text())
        self.steps = described["steps"]
        self.outputs = described["outputs"]
        kinds = {kind.__name__: kind for kind in KINDS}
        self.parts = nn.ModuleList(kinds[each["kind"]](**each["settings"]) for each in self.steps)
        with numpy.load(Path(folder) / "model.npz") as arrays:
            state = {name: torch.from_numpy(arrays[name]) for name in arrays}
        self.load_state_dict(state)
        self.eval()
        self.is_bfloat16 = False

    def in_precision(self, precision):
        """The model in ``float32``, ``bfloat16`` or, by dynamic quantization, ``int8``. Its outputs
        are float32."""
        if precision == "bfloat16":
            self.is_bfloat16 = True
            return self.to(torch.bfloat16)
        if precision == "float32":
            return self
        if any(isinstance(part, nn.RNN) for part in self.modules()):
            raise ValueError("torch's dynamic quantization leaves an RNN in float32")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.ao is announced to leave torch
            kinds = {nn.LSTM, nn.GRU, nn.Linear}
            return torch.ao.quantization.quantize_dynamic(self, kinds, dtype=torch.qint8)

    def forward(self, inputs):
        values = list(inputs)
        if self.is_bfloat16:
            values = [each.bfloat16() if each.is_floating_point() else each for each in values]
        for place, part in enumerate(self.parts):
            given = [values[number] for number in self.steps[place]["inputs"]]
            values.append(part(*given))
        outputs = [values[number] for number in self.outputs]
        if self.is_bfloat16:
            outputs = [output.float() for output in outputs]
        return outputs
