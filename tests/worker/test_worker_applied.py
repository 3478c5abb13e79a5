"""Whether a training step applies its gradient: computed by hand, and in a build that fails."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import numpy
import pytest

from rnnworker import certify
from tests.conftest import ROOT
from tests.worker.building import build_python


def arrays(*values: float) -> list[numpy.ndarray]:
    return [numpy.array(values, "float32")]


SMALL = numpy.array([1e-6, 3e-6], "float32")
DIFFERENCES = {
    "exact": (arrays(1.0, 2.0), arrays(0.5, 2.25), arrays(0.5, -0.25), 0.0),
    "on the scale of the gradient": (
        arrays(1.0, 2.0), arrays(0.5, 2.0), arrays(0.5, -0.25), pytest.approx(0.5, abs=1e-5)),
    "nothing applied": (
        arrays(1.0, 2.0), arrays(1.0, 2.0), arrays(0.5, -0.25), pytest.approx(1.0, abs=1e-5)),
    "not finite": (
        arrays(1.0, 2.0), arrays(float("nan"), 2.0), arrays(0.5, -0.25), float("inf")),
    # Subtraction from 1 in float32 rounds to 6e-8: several per cent of this gradient.
    "rounding": (arrays(1.0, 1.0), [numpy.ones(2, "float32") - SMALL], [SMALL], 0.0),
    # An array without a gradient must not change.
    "unchanged": (arrays(1.0) + arrays(0.0), arrays(0.5) + arrays(0.0),
                  arrays(0.5) + arrays(0.0), 0.0),
    "changed": (arrays(1.0) + arrays(0.0), arrays(0.5) + arrays(0.1),
                arrays(0.5) + arrays(0.0), pytest.approx(0.2, abs=1e-4)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "gradients", "expected"), DIFFERENCES.values(), ids=DIFFERENCES
)
def test_the_difference_between_applied_and_computed_gradients(
    before: list, after: list, gradients: list, expected: float
) -> None:
    assert certify.difference(before, after, gradients) == expected


class Session:
    """Applies only half of its gradient in every third step."""

    threads = 1
    config = {"build": {"framework": "made_up"}}  # noqa: RUF012

    def __init__(self) -> None:
        self.step, self.weights = 0, arrays(1.0, 1.0)
        self.load_weights = lambda weights: None
        self.model = self
        self.trainable_variables = [self]

    def reset(self) -> None:
        self.weights = arrays(1.0, 1.0)

    def numpy(self) -> numpy.ndarray:
        return self.weights[0]

    def train_batch(self, x, y) -> None:
        self.step += 1
        share = 0.5 if self.step % 3 == 0 else 1.0
        self.weights = [self.weights[0] - numpy.float32(share) * x[0]]

    def precision_facts(self) -> dict:
        return {"policy": "float32"}


def test_steps_that_are_off_are_counted(monkeypatch) -> None:
    monkeypatch.setitem(certify.GRADIENTS, "made_up", lambda session: lambda x, y: [x[0]])
    x = numpy.array([[0.5, 0.25]], "float32")
    trial = SimpleNamespace(
        session=Session(), weights=[], config={"model": {"batch": 1}, "seed": 0}
    )
    data = {"x_train": x, "y_train": x}
    result = certify.applied(trial, {}, {}, data, {"gradients": 1e-4})
    worst = result.pop("worst")
    assert result == {"threads": 1, "steps": 30, "off": 10, "why": None}
    assert worst == pytest.approx(0.5, abs=1e-5)


# 4,000 samples of 784 pixels, three epochs of mnist_mlp, as in the issue.
MODEL = {
    "function": "rnnworker.models.mnist_mlp:build", "units": 512, "dropout": 0.2, "batch": 128,
    "data": {"prepare": "rnnworker.models.mnist_mlp:prepare"}, "epochs": 3,
    "optimizer": {"name": "rmsprop", "learning_rate": 0.001, "rho": 0.9, "epsilon": 1e-8},
    "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"],
    "train_samples": 4000, "val_samples": 1000,
}  # fmt: skip
CONFIG = {
    "model": MODEL, "cell": {"name": "lstm"}, "rnn": {"implementation": "none"},
    "device": {"name": "cpu_1", "kind": "cpu", "threads": 1}, "dataset": {"name": "made_up"},
    "seed": 0, "repeat": 0, "measure": {}, "limits": {},
}  # fmt: skip
SCRIPT = """
import json, os, sys
request = json.loads(sys.argv[1])
sys.path.insert(0, request["source"])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
from rnnworker import canonical_weights, certify, frameworks
from rnnworker.events import Events
from rnnworker.turns import Turns
config = request["config"]
job = {"config": config, "device": "cpu_1", "threads": 1, "dataset": request["data"]}
arrays, _ = certify.samples_of(job)
applied = certify.applied(None, job, config["rnn"], arrays, {"gradients": 1e-4})
session = frameworks.open_session(config, 1)
session.load_data(request["data"])
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
epochs = []
session.fit(lambda epoch: epochs.append(epoch), None, Turns(Events(2)))
print("RESULT " + json.dumps({"applied": applied, "val_acc": float(epochs[-1]["val_acc"])}))
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> str:
    """MNIST if this checkout has it, else ten blurred patterns, shifted and with noise."""
    real = ROOT / "data" / "mnist_10k.npz"
    if real.exists():
        return str(real)
    stream = numpy.random.RandomState(0)
    patterns = stream.uniform(size=(10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    made = {}
    for name, count in (("train", 4000), ("test", 1000)):
        labels = stream.randint(0, 10, count)
        shifts = stream.randint(-2, 3, (count, 2))
        shown = [numpy.roll(patterns[y], s, (0, 1)) for y, s in zip(labels, shifts, strict=True)]
        noisy = 255 * numpy.clip(numpy.array(shown) + stream.normal(0, 0.3, (count, 28, 28)), 0, 1)
        made |= {f"x_{name}": noisy.astype("uint8"), f"y_{name}": labels.astype("uint8")}
    path = tmp_path_factory.mktemp("images") / "made_up.npz"
    numpy.savez(path, **made)
    return str(path)


@pytest.mark.parametrize("as_published", [False, True])
def test_tensorflow_1_2_applies_its_gradients_except_as_published(
    as_published: bool, images: str, tmp_path_factory
) -> None:
    python = build_python("tf_1_2", "3.6", tmp_path_factory)
    build = {"name": "tf_1_2", "framework": "keras206_tensorflow1", "as_published": as_published}
    request = {"source": str(ROOT / "src"), "data": images, "config": {**CONFIG, "build": build}}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", SCRIPT, json.dumps(request)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, timeout=600,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    assert result["applied"]["why"] is None
    if as_published:
        assert result["applied"]["off"] > 0
        assert result["val_acc"] < 0.85
    else:
        assert result["applied"]["off"] == 0
        assert result["val_acc"] > 0.85
