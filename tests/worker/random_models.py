"""Random ordinary Keras models as Python source, for the test that every implementation computes
what Keras computes or is refused. A seed always gives the same model."""

from __future__ import annotations

import numpy as np

STEPS, FEATURES, WORDS, ROWS = 6, 3, 9, 24
REGULARIZERS = ('"l2"', "keras.regularizers.l1(0.01)")
# Arguments of LSTM, GRU or SimpleRNN, each with the values that it may have.
ARGUMENTS = {
    "use_bias": ("False",),
    "go_backwards": ("True",),
    "activation": ('"tanh"', '"relu"', '"softsign"'),
    "dropout": ("0.3",),
    "recurrent_dropout": ("0.2",),
    "kernel_initializer": ('"he_normal"', "keras.initializers.RandomNormal(stddev=0.3)"),
    "recurrent_initializer": ('"glorot_uniform"',),
    "bias_initializer": ('"ones"',),
    "kernel_regularizer": REGULARIZERS,
    "recurrent_regularizer": REGULARIZERS,
    "kernel_constraint": ("keras.constraints.MaxNorm(0.5)", '"non_neg"'),
    "trainable": ("False",),
}
OF_GATES = {"recurrent_activation": ('"hard_sigmoid"', '"sigmoid"')}
OF_LSTM = {"unit_forget_bias": ("False",)}
MODES = ('"concat"', '"sum"', '"mul"', '"ave"', "None")
# Name → arguments. In place of one that a Keras does not have, the models take Adam.
OPTIMIZERS = {
    "SGD": "momentum=0.9, nesterov=True",
    "Adam": "",
    "RMSprop": "",
    "Adagrad": "",
    "Nadam": "",
    "AdamW": "weight_decay=0.1",
    "Adafactor": "",
    "Lamb": "",
}
CLIPS = ("", "", "clipnorm=0.1", "clipvalue=0.01")
FREEZES = {
    "class": "isinstance(layer, (keras.layers.LSTM, keras.layers.GRU))",
    "name": 'layer.name.startswith(("lstm", "simple_rnn"))',
    "index": "number == 2",
}
# Before ``build``: what some of the models use.
PREAMBLE = """
def optimizer(keras, name, clip, **settings):
    made = getattr(keras.optimizers, name, None)
    if made is None:
        made, settings = keras.optimizers.Adam, {}
    return made(learning_rate=0.01, **clip, **settings)


def around(keras, inner):
    class Around(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def call(self, inputs):
            return self.inner(inputs)

    return Around()


def penalized(keras):
    class Penalized(keras.models.Model):
        def compute_loss(self, *arguments, **settings):
            loss = super().compute_loss(*arguments, **settings)
            for variable in self.trainable_variables:
                if "recurrent" in variable.name:
                    loss = loss + 0.01 * keras.ops.sum(keras.ops.square(variable))
            return loss

    return Penalized if hasattr(keras, "ops") else keras.models.Model


"""


class Writer:
    """Writes one model. `lines`: its statements; each tensor is a name with the number of its
    axes."""

    def __init__(self, seed: int) -> None:
        self.stream = np.random.RandomState(seed)
        self.further = np.random.RandomState(seed + 10**6)  # how it is wrapped and trained
        self.lines: list[str] = []
        self.inputs: dict[str, str] = {}  # name → kind of array
        self.count = 0

    def chance(self, probability: float) -> bool:
        return bool(self.stream.uniform() < probability)

    def is_further(self, probability: float) -> bool:
        return bool(self.further.uniform() < probability)

    def one_of(self, values):
        return values[self.stream.randint(len(values))]

    def write(self, expression: str) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def arguments(self, kind: str) -> list[str]:
        """Up to two arguments beside the units."""
        known = dict(ARGUMENTS)
        if kind != "SimpleRNN":
            known.update(OF_GATES)
        if kind == "LSTM":
            known.update(OF_LSTM)
        names = self.stream.permutation(sorted(known))[: self.stream.randint(3)]
        return [f"{name}={self.one_of(known[name])}" for name in names]

    def layer(self, sequences: bool, *further: str) -> str:
        kind = self.one_of(("LSTM", "LSTM", "GRU", "SimpleRNN"))
        settings = [str(self.stream.randint(2, 6)), *self.arguments(kind), *further]
        if sequences:
            settings.append("return_sequences=True")
        return f"layers.{kind}({', '.join(settings)})"

    def recurrent(self, tensor: str, sequences: bool) -> str:
        """One recurrent layer, or two in a Bidirectional."""
        if not self.chance(0.4):
            layer = self.layer(sequences)
            if self.is_further(0.15):
                layer = f"around(keras, {layer})"
            return self.write(f"{layer}({tensor})")
        layer = self.layer(sequences)
        if "go_backwards" in layer:
            layer = layer.replace("go_backwards=True", "go_backwards=False")
        mode = self.one_of(MODES)
        both = self.write(f"layers.Bidirectional({layer}, merge_mode={mode})({tensor})")
        if mode == "None":
            return self.write(f"layers.Concatenate()({both})")
        return both

    def source(self) -> str:
        """A tensor (batch, steps, features)."""
        name = f"i{len(self.inputs)}"
        kind = self.one_of(("numbers", "numbers", "words", "padded"))
        self.inputs[name] = kind
        shape = f"({STEPS},)" if kind == "words" else f"({STEPS}, {FEATURES})"
        self.lines.append(f'{name} = layers.Input(shape={shape}, name="{name}")')
        if kind == "words":
            masks = self.one_of(("", "", ", mask_zero=True"))
            return self.write(f"layers.Embedding({WORDS}, {FEATURES}{masks})({name})")
        return self.write(f"layers.Masking()({name})") if kind == "padded" else name

    def stack(self, tensor: str, sequences: bool) -> str:
        for _ in range(self.stream.randint(2)):
            tensor = self.recurrent(tensor, True)
            if self.chance(0.3):
                tensor = self.write(f"layers.TimeDistributed(layers.Dense(3))({tensor})")
            elif self.chance(0.3):
                tensor = self.write(f"layers.Dropout(0.2)({tensor})")
        return self.recurrent(tensor, sequences)

    def states(self, tensor: str) -> str:
        """An encoder whose states a decoder of another input begins with."""
        kind, units = self.one_of(("LSTM", "GRU")), self.stream.randint(2, 6)
        encoder = f"layers.{kind}({units}, return_state=True)"
        states = "*states" if kind == "LSTM" else "states"
        self.lines.append(f"_, {states} = {encoder}({tensor})")
        decoder = f"layers.{kind}({units}, return_sequences=True)"
        return self.write(f"{decoder}({self.source()}, initial_state=states)")

    def training(self) -> list[str]:
        """What is frozen, and the arguments of ``compile``."""
        lines = []
        if self.is_further(0.3):
            condition = FREEZES[self.further.choice(sorted(FREEZES))]
            lines += [
                "for number, layer in enumerate(model.layers):",
                f"    layer.trainable = layer.trainable and not {condition}",
            ]
        name = self.further.choice(sorted(OPTIMIZERS))
        settings = f"{OPTIMIZERS[name]}, ".lstrip(", ")
        clip = self.further.choice(CLIPS)
        lines.append(f'rule = optimizer(keras, "{name}", {settings}clip=dict({clip}))')
        lines.append('model.compile(rule, "mse")')
        return lines


def model(seed: int) -> tuple[str, dict[str, str], list[int]]:
    """(source of a file with ``build``, kind of each input, number of axes of each output)."""
    writer = Writer(seed)
    tensor = writer.source()
    ranks = [3 if writer.chance(0.3) else 2]
    if writer.chance(0.25):
        ranks = [3]
        tensor = writer.states(tensor)
        if writer.chance(0.5):
            tensor = writer.recurrent(tensor, True)
    else:
        tensor = writer.stack(tensor, ranks[0] == 3)
    if len(writer.inputs) == 1 and ranks == [2] and writer.chance(0.3):
        other = writer.stack(writer.source(), False)
        tensor = writer.write(f"layers.Concatenate()([{tensor}, {other}])")
    if len(writer.inputs) == 1 and writer.is_further(0.2):
        (name,) = writer.inputs
        inner = writer.write(f"keras.models.Model({name}, {tensor})")
        tensor = writer.write(f"{inner}({name})")
    outputs = [writer.write(f"layers.Dense(2)({tensor})")]
    if writer.chance(0.25):
        outputs.append(writer.write(f'layers.Dense(1, activation="sigmoid")({tensor})'))
        ranks *= 2
    shown = [", ".join(names) for names in (writer.inputs, outputs)]
    inputs, results = (f"[{each}]" if ", " in each else each for each in shown)
    kind = "penalized(keras)" if writer.is_further(0.2) else "keras.models.Model"
    body = "\n    ".join(
        [
            "layers = keras.layers",
            *writer.lines,
            f"model = {kind}({inputs}, {results})",
            *writer.training(),
            "return model",
        ]
    )
    return f"{PREAMBLE}def build(keras):\n    {body}\n", writer.inputs, ranks


def arrays(seed: int) -> dict[str, np.ndarray]:
    """The data of a model in the format of an ``.npz`` file."""
    _, inputs, ranks = model(seed)
    stream, found = np.random.RandomState(seed), {}
    for part in ("train", "val"):
        for number, kind in enumerate(inputs.values()):
            name = f"x_{part}.{number}" if len(inputs) > 1 else f"x_{part}"
            found[name] = _input(kind, stream)
        for number, rank in enumerate(ranks):
            name = f"y_{part}.{number}" if len(ranks) > 1 else f"y_{part}"
            columns = 2 if number == 0 else 1
            shape = (ROWS, STEPS, columns) if rank == 3 else (ROWS, columns)
            found[name] = stream.normal(size=shape).astype("float32")
    return found


def _input(kind: str, stream: np.random.RandomState) -> np.ndarray:
    lengths = stream.randint(1, STEPS + 1, ROWS)[:, None] > np.arange(STEPS)
    if kind == "words":
        return (stream.randint(1, WORDS, (ROWS, STEPS)) * lengths).astype("int32")
    values = stream.normal(size=(ROWS, STEPS, FEATURES)).astype("float32")
    return values * lengths[:, :, None] if kind == "padded" else values
