"""What each conversion of a Keras layer keeps, changes or refuses: the table of docs/runtimes.md.

    python benchmarks/runtimes.py                    # the table, in the build `serving`
    python benchmarks/runtimes.py --write            # into docs/runtimes.md
    python benchmarks/runtimes.py --small            # two rows

Every model has random weights and biases. A runtime is asked for a batch of four, a longer and a
shorter sequence, masked sequences if the layer takes them, and for everything twice. The answers
are compared with float64 formulas, or with Keras in float64 where there is none.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
RUNTIMES = (
    "saved_model",
    "onnxruntime",
    "onnxruntime_operator",
    "openvino",
    "litert",
    "torch_eager",
)
UNITS, FEATURES, STEPS, BATCH = 8, 5, 9, 4
BEGIN, END = "<!-- table of benchmarks/runtimes.py -->", "<!-- end of the table -->"
CELLS = ("LSTM", "GRU", "SimpleRNN")
# Options of a recurrent layer that stands alone.
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "return_sequences": {"return_sequences": True},
    "return_state": {"return_state": True},
    "go_backwards": {"go_backwards": True},
    "go_backwards, return_sequences": {"go_backwards": True, "return_sequences": True},
    "use_bias=False": {"use_bias": False},
    "activation relu": {"activation": "relu"},
    "activation softsign": {"activation": "softsign"},
    "activation gelu": {"activation": "gelu"},
    "dropout and recurrent_dropout 0.5": {"dropout": 0.5, "recurrent_dropout": 0.5},
}
OF_GATES: dict[str, dict[str, Any]] = {
    "recurrent_activation hard_sigmoid": {"recurrent_activation": "hard_sigmoid"},
    "recurrent_activation tanh": {"recurrent_activation": "tanh"},
}


def models(keras: Any) -> dict[str, Callable[[], Any]]:
    """Name of a row → the function that makes its model."""
    layers = keras.layers
    found: dict[str, Callable[[], Any]] = {}

    def alone(layer: Any, steps: int | None = None, batch: int | None = None) -> Any:
        inputs = keras.Input((steps, FEATURES), batch_size=batch)
        return keras.Model(inputs, layer(inputs))

    def stacked(*parts: Any) -> Any:
        inputs = keras.Input((None, FEATURES))
        value = inputs
        for part in parts:
            value = part(value)
        return keras.Model(inputs, value)

    def words(layer: Any) -> Any:
        inputs = keras.Input((None,), dtype="int32")
        return keras.Model(inputs, layer(layers.Embedding(20, FEATURES, mask_zero=True)(inputs)))

    def with_states(make: Any, number: int) -> Any:
        inputs = keras.Input((None, FEATURES))
        states = [keras.Input((UNITS,)) for _ in range(number)]
        return keras.Model([inputs, *states], make(UNITS)(inputs, initial_state=states))

    for cell in CELLS:
        make = getattr(layers, cell)
        cell_class = getattr(layers, f"{cell}Cell")
        options = dict(OPTIONS)
        if cell != "SimpleRNN":
            options |= OF_GATES
        if cell == "GRU":
            options["reset_after=False"] = {"reset_after": False}
        for name, settings in options.items():
            found[f"{cell}: {name}"] = lambda make=make, s=settings: alone(make(UNITS, **s))
        found |= {
            f"{cell}: fixed length": lambda make=make: alone(make(UNITS), STEPS),
            f"{cell}: unroll": lambda make=make: alone(make(UNITS, unroll=True), STEPS),
            f"{cell}: stateful": lambda make=make: alone(make(UNITS, stateful=True), STEPS, BATCH),
            f"{cell}: initial_state as inputs": (
                lambda make=make, number=2 if cell == "LSTM" else 1: with_states(make, number)
            ),
            f"{cell}: two layers": lambda make=make: stacked(
                make(UNITS, return_sequences=True), make(UNITS)
            ),
            f"{cell}: LayerNormalization between two layers": lambda make=make: stacked(
                make(UNITS, return_sequences=True), layers.LayerNormalization(), make(UNITS)
            ),
            f"{cell}: as the cell of RNN": lambda c=cell_class: alone(layers.RNN(c(UNITS))),
            f"{cell}: two cells of RNN": lambda c=cell_class: alone(
                layers.RNN([c(UNITS), c(UNITS)])
            ),
            f"{cell}: mixed_float16": lambda make=make: alone(make(UNITS, dtype="mixed_float16")),
            f"{cell}: Masking": lambda make=make: stacked(layers.Masking(), make(UNITS)),
            f"{cell}: Masking, return_sequences": lambda make=make: stacked(
                layers.Masking(), make(UNITS, return_sequences=True)
            ),
            f"{cell}: Masking, go_backwards": lambda make=make: stacked(
                layers.Masking(), make(UNITS, go_backwards=True)
            ),
            f"{cell}: Embedding(mask_zero)": lambda make=make: words(make(UNITS)),
            f"{cell}: Masking, Bidirectional, return_sequences": lambda make=make: stacked(
                layers.Masking(), layers.Bidirectional(make(UNITS, return_sequences=True))
            ),
            f"{cell}: Masking, Bidirectional": lambda make=make: stacked(
                layers.Masking(), layers.Bidirectional(make(UNITS))
            ),
            f"{cell}: Bidirectional, return_state": lambda make=make: stacked(
                layers.Bidirectional(make(UNITS, return_state=True))
            ),
            f"{cell}: Bidirectional, return_sequences": lambda make=make: stacked(
                layers.Bidirectional(make(UNITS, return_sequences=True))
            ),
        }
        modes = ("concat", None) if cell == "SimpleRNN" else ("concat", "sum", "mul", "ave", None)
        for mode in modes:
            found[f"{cell}: Bidirectional, merge_mode={mode}"] = lambda make=make, m=mode: stacked(
                layers.Bidirectional(make(UNITS), merge_mode=m)
            )
    return found


SMALL = ("LSTM: defaults", "LSTM: activation gelu")


def rows_of(names: list[str], runtimes: list[str]) -> list[dict[str, Any]]:
    """The rows, made in the Python that has the runtimes."""
    import keras

    from rnnserve import keras_models
    from rnnworker.serving import cases, equality, prepare

    keras_models.set_threads(1)
    made = models(keras)
    rows = []
    for name in names or list(made):
        keras.utils.set_random_seed(0)
        model = made[name]()
        stream = numpy.random.default_rng(0)
        samples = []
        for tensor in model.inputs:
            shape = (BATCH, *(size or STEPS for size in tensor.shape[1:]))
            array = stream.normal(size=shape)
            if tensor.dtype == "int32":
                array = stream.integers(1, 20, size=shape)
            samples.append(array.astype(tensor.dtype))
        cases.give_biases(model)
        asked = cases.cases_of(model, samples, [BATCH])
        arrays = [case.arrays for case in asked]
        expected, reference = prepare.expected_of(model, arrays)
        keras_models.reset_states(model)
        of_keras = prepare.answers(lambda each, m=model: prepare.by_keras(m, each), arrays)
        roundings = prepare.largest_differences(of_keras, expected)
        bounds = equality.bounds_of(expected[0][0], roundings)
        row: dict[str, Any] = {"name": name, "reference": reference, "cells": {}}
        row["keras"] = max(roundings)
        for runtime in runtimes:
            row["cells"][runtime] = _cell(model, runtime, asked, expected, bounds)
        rows.append(row)
        print(json.dumps(row), flush=True)
        keras.backend.clear_session()
    return rows


def _cell(model: Any, name: str, asked: Any, expected: Any, bounds: list[float]) -> dict[str, Any]:
    """The largest difference of a runtime, with the case, or why it refuses."""
    from rnnserve import runtime
    from rnnserve.refusals import Refused, first_words
    from rnnworker.serving import equality, prepare

    chosen = runtime(name)
    shapes, shape_of = prepare.shapes_in([case.arrays for case in asked])
    worst: dict[str, Any] = {"difference": 0.0, "case": "", "equal": True}
    with tempfile.TemporaryDirectory() as folder:
        loaded: dict[int, Any] = {}
        try:
            for number, case in enumerate(asked):
                shape = shape_of[number] if chosen.has_fixed_shapes else 0
                if shape not in loaded:
                    place = Path(folder) / str(shape)
                    place.mkdir()
                    chosen.export(model, shapes[shape], place)
                    loaded[shape] = chosen.load(place, 1)
                for call, wanted in enumerate(expected[number]):
                    found = loaded[shape](case.arrays)
                    for output, right, bound in zip(found, wanted, bounds, strict=True):
                        apart = equality.difference(output, right)
                        if apart is None:
                            return {"error": f"{case.name}: another shape"}
                        if apart > bound:
                            worst["equal"] = False
                        if apart > worst["difference"]:
                            again = ", second call" if call else ""
                            worst |= {"difference": apart, "case": f"{case.name}{again}"}
        except Refused as error:
            return {"refused": " ".join(str(error).split())}
        except Exception as error:  # of any class of a library
            return {"error": first_words(error)}
    return worst


def markdown(rows: list[dict[str, Any]], versions: dict[str, str]) -> str:
    """The table, with what was refused below it."""
    runtimes = list(rows[0]["cells"])
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    lines = [
        f"{datetime.date.today()}: {packages}.",
        "",
        f"| layer and option | Keras itself | {' | '.join(f'`{name}`' for name in runtimes)} |",
        f"|---|{'---|' * (len(runtimes) + 1)}",
    ]
    reasons: dict[str, int] = {}
    for row in rows:
        cells = []
        for runtime in runtimes:
            cell = row["cells"][runtime]
            said = cell.get("refused") or cell.get("error")
            if said is None:
                text = f"{cell['difference']:.0e}"
                if not cell["equal"]:
                    text = f"**≠ {text}** ({cell['case']})"
            else:
                said = without_names(said)
                if not said.startswith("layer "):
                    said = f"`{runtime}`: {said}"
                number = reasons.setdefault(said, len(reasons) + 1)
                text = f"{'refused' if 'refused' in cell else '**error**'} [{number}]"
            cells.append(text)
        keras = f"{row['keras']:.0e}"
        if row["reference"] != "float64 formulas":
            keras += " (F)"
        lines.append(f"| {row['name']} | {keras} | {' | '.join(cells)} |")
    lines += ["", "Reasons:", ""]
    for said, number in reasons.items():
        lines.append(f"{number}. {said}")
    return "\n".join(lines)


def without_names(text: str) -> str:
    """A reason without the names of one model's layers and nodes, at most 150 characters."""
    words = []
    for word in text.partition(" END: ")[0].split():
        kept = word
        if "/" in word and len(word) > 20:
            kept = "…"
        words.append(kept)
    if len(words) > 2 and words[0] == "layer":
        words[1] = "NAME:"
    short = " ".join(words).replace("|", "/").replace("<", "‹").replace(">", "›")
    return short if len(short) <= 150 else f"{short[:150]} …"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="two rows, two runtimes")
    parser.add_argument("--write", action="store_true", help="into docs/runtimes.md")
    parser.add_argument("--rows", help="only the rows whose names begin with this")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help="joined by commas")
    parser.add_argument("--python", help="a Python with the runtimes (default: build serving)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="source", type=Path, help="lines of earlier runs")
    options = parser.parse_args()
    if options.inside:
        import keras

        names = list(SMALL) if options.small else []
        if options.rows:
            names = [name for name in models(keras) if name.startswith(options.rows)]
        runtimes = options.runtimes.split(",")
        if options.small:
            runtimes = ["onnxruntime", "onnxruntime_operator"]
        print(json.dumps({"versions": _versions()}))
        rows_of(names, runtimes)
        return
    text = options.source.read_text() if options.source else _inside(options)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    versions = next(line["versions"] for line in lines if "versions" in line)
    by_name: dict[str, dict[str, Any]] = {}
    for line in lines:
        if "cells" in line:
            row = by_name.setdefault(line["name"], line)
            row["cells"] |= line["cells"]  # a later run replaces its cells
    rows = list(by_name.values())
    table = markdown(rows, versions)
    from benchmarks.where import heading

    print(heading())
    print(table)
    if options.write:
        page = ROOT / "docs" / "runtimes.md"
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def _inside(options: argparse.Namespace) -> str:
    """The lines that this script prints in the Python that has the runtimes."""
    python = options.python
    if python is None:
        import yaml

        from rnnbench.builds.environments import prepare
        from rnnbench.builds.launcher import launcher
        from rnnbench.builds.pins import build_of

        section = yaml.safe_load((ROOT / "conf" / "build" / "serving.yaml").read_text())
        build = build_of({"name": "serving", **section})
        prepare(build, ROOT, print)
        (python,) = launcher(build, ROOT)
    command = [python, __file__, "--inside"]
    if options.small:
        command.append("--small")
    if options.rows:
        command += ["--rows", options.rows]
    command += ["--runtimes", options.runtimes]
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("keras", "tensorflow-cpu", "tf2onnx", "onnx", "onnxruntime", "openvino", "numpy")
    return {name: version(name) for name in (*names, "ai-edge-litert", "torch")}


if __name__ == "__main__":
    main()
