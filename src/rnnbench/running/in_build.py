"""Questions about checkpoints that only a framework can answer, asked of the Python of a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins

from rnnbench.builds.environments import prepare
from rnnbench.builds.launcher import launcher
from rnnbench.errors import say
from rnnbench.grid.choices import Build
from rnnweights import frameworks
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.workers import environment_of

HERE = Build(name="current", framework="keras3_tensorflow")  # the interpreter of rnnbench


def ask(
    action: str,
    *,
    build: Build = HERE,
    root: Path,
    **question: Any,
) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """The answer of the Python of a `build` to a question, as `frameworks.ask` gives it.

    `root`: the project's folder. Raises `BuildError`
    if it cannot be made.
    """
    prepare(build, root, say)
    variables = environment_of({"build": to_builtins(build)}, 1)
    variables["KERAS_BACKEND"] = FRAMEWORKS[build.framework].backend
    python = frameworks.Python(
        launcher(build, root),
        variables,
        name=f"build {build.name}",
        option="--build",
    )
    return frameworks.ask(python, action, **question)
