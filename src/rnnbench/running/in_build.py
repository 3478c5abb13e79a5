"""Questions about checkpoints that only a framework can answer, asked of the Python of a build."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnnbench.builds.environments import prepare
from rnnbench.builds.launcher import launcher
from rnnbench.errors import BuildError, say
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.workers import WORKER, environment_of, write

HERE = {"name": "current", "framework": "keras3_tensorflow"}  # the interpreter of rnnbench
SECONDS = 600
# As the worker's own start: its folder must not be on the path of the build. Not in the worker's
# ``__main__``, because it would count as code of a run.
START = (
    "import runpy, sys; runpy.run_path(sys.argv[1])['load_package'](); "
    "from rnnworker.checkpoints import main; main(sys.argv[2])"
)


def ask(
    action: str,
    *,
    build: Mapping[str, Any] = HERE,
    root: Path,
    arrays: Mapping[str, np.ndarray] | None = None,
    **question: Any,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The answer of ``rnnworker.checkpoints`` to a question, and its arrays.

    - `action`: the name of a function there.
    - `build`: the section of the build whose Python answers, within `SECONDS`.
    - `root`: the project's folder.
    - `arrays`, `question`: what the function is given.

    Raises `BuildError` with the framework's words, and `subprocess.TimeoutExpired`.
    """
    prepare(build, root, say)
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        if arrays is not None:
            np.savez(f"{folder}/question.npz", **arrays)  # type: ignore[arg-type]
        write(f"{folder}/job.json", {"action": action, "question": question})
        command = [*launcher(build, root), "-B"]
        words = shlex.join(command)
        command += ["-c", START, f"{WORKER}/__main__.py", folder]
        variables = environment_of({"build": build}, 1)
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
        variables["KERAS_BACKEND"] = FRAMEWORKS[build["framework"]].backend
        done = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=folder,
        )

        answered = Path(folder, "answer.json")
        if not answered.exists():
            messages = done.stderr.strip().splitlines() or ["no message"]
            what = f"{words} ended with {done.returncode}: {messages[-1]}."
            raise BuildError(what, where="--build", remedy="name another build.")

        answer: dict[str, Any] = json.loads(answered.read_text())
        if "error" in answer:
            where = f"build {build['name']}"
            raise BuildError(answer["error"], where=where, remedy=answer["remedy"])
        file = Path(folder, "answer.npz")
        if not file.exists():
            return answer, {}
        with np.load(file, allow_pickle=False) as loaded:
            return answer, {name: loaded[name] for name in loaded.files}
