"""Questions about checkpoints that only a framework can answer, asked of the Python of a build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnnbench.builds.environments import prepare
from rnnbench.builds.launcher import launcher
from rnnbench.errors import say
from rnnweights import frameworks
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.workers import environment_of

HERE = {"name": "current", "framework": "keras3_tensorflow"}  # the interpreter of rnnbench


def ask(
    action: str,
    *,
    build: Mapping[str, Any] = HERE,
    root: Path,
    **question: Any,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The answer of the Python of a `build` to a question, as `frameworks.ask` gives it.

    `build`: its section of the configuration; `root`: the project's folder. Raises `BuildError`
    if it cannot be made.
    """
    prepare(build, root, say)
    variables = environment_of({"build": build}, 1)
    variables["KERAS_BACKEND"] = FRAMEWORKS[build["framework"]].backend
    python = frameworks.Python(
        launcher(build, root),
        variables,
        name=f"build {build['name']}",
        option="--build",
    )
    return frameworks.ask(python, action, **question)
