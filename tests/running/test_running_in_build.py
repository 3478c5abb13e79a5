"""A question about a checkpoint goes to the Python of a build, with its environment."""

from __future__ import annotations

from typing import Any

import pytest

from rnnbench.grid.choices import Build
from rnnbench.running import in_build
from rnnweights import frameworks
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("framework", "backend"),
    [("keras3_tensorflow", "tensorflow"), ("keras3_torch", "torch"), ("keras3_jax", "jax")],
)
def test_the_backend_is_that_of_the_build(
    framework: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(python: frameworks.Python, action: str, **question: Any) -> Any:
        asked.append((action, question))
        return python, {}

    monkeypatch.setattr(frameworks, "ask", ask)
    build = Build(name="mine", framework=framework)
    python, _ = in_build.ask("look", build=build, root=ROOT, file="a.h5")
    assert asked == [("look", {"file": "a.h5"})]
    assert (python.name, python.option) == ("build mine", "--build")
    assert python.variables["KERAS_BACKEND"] == backend
    assert python.variables["OMP_NUM_THREADS"] == "1"
