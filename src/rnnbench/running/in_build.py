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
# A file alone: its folder must not be on the path of the build, nor count as code of a run.
START = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](sys.argv[2])"


def ask(
    action: str,
    *,
    build: Mapping[str, Any] = HERE,
    root: Path,
    arrays: Mapping[str, np.ndarray] | None = None,
    **question: Any,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The answer of ``rnnworker.checkpoints`` to a question, and its arrays. `action`: the name of
    a function there; `arrays`: what it is given. Raises `BuildError` with the framework's words."""
    prepare(build, root, say)
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        if arrays is not None:
            np.savez(f"{folder}/question.npz", **arrays)  # type: ignore[arg-type]
        write(f"{folder}/job.json", {"action": action, "question": question})
        command = [*launcher(build, root), "-B", "-c", START, f"{WORKER}/checkpoints.py", folder]
        variables = environment_of({"build": build}, 1) | {"CUDA_VISIBLE_DEVICES": "-1"}
        variables["KERAS_BACKEND"] = FRAMEWORKS[build["framework"]].backend
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS, cwd=folder,
        )  # fmt: skip
        answered = Path(folder, "answer.json")
        if not answered.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            what = f"{shlex.join(command[:-4])} ended with {done.returncode}: {last}."
            raise BuildError(what, where="--build", remedy="name another build.")
        answer: dict[str, Any] = json.loads(answered.read_text())
        if "error" in answer:
            raise BuildError(answer["error"], where=f"build {build['name']}",
                             remedy=answer["remedy"])  # fmt: skip
        if not Path(folder, "answer.npz").exists():
            return answer, {}
        with np.load(f"{folder}/answer.npz", allow_pickle=False) as file:
            return answer, {name: file[name] for name in file.files}
