"""Questions about checkpoints that only a framework can answer, asked of a Python that has it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rnnweights.checkpoint import Refusal

SECONDS = 600
SCRIPT = Path(__file__).with_name("in_framework.py")
# The folder of the script must not be on the path: names of its modules are also those of others.
START = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"

# What `ask` is with its first argument given.
Worker = Callable[..., tuple[dict[str, Any], dict[str, np.ndarray]]]


@dataclass(frozen=True)
class Python:
    """- `command`: what starts it.
    - `variables`: its environment.
    - `name`: of it, for messages.
    - `option`: of the command line, which names another one.
    """

    command: Sequence[str] = (sys.executable,)
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    name: str = "this Python"
    option: str = "--python"


def ask(
    python: Python,
    action: str,
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    **question: Any,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The answer of ``in_framework.py`` to a question, and its arrays.

    - `action`: the name of a function there.
    - `arrays`, `question`: what the function is given.

    Raises `Refusal` with the framework's words, or if it takes longer than `SECONDS`.
    """
    with tempfile.TemporaryDirectory(prefix="rnnweights-") as folder:
        if arrays is not None:
            np.savez(f"{folder}/question.npz", **arrays)  # type: ignore[arg-type]
        job = json.dumps({"action": action, "question": question})
        Path(folder, "job.json").write_text(job)
        command = [*python.command, "-B"]
        words = shlex.join(command)
        command += ["-c", START, str(SCRIPT), folder]
        try:
            done = subprocess.run(
                command,
                env={**python.variables, "CUDA_VISIBLE_DEVICES": "-1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                cwd=folder,
            )
        except subprocess.TimeoutExpired:
            raise Refusal(
                f"{words} has not answered within {SECONDS} s.",
                f"name another one with {python.option}.",
            ) from None

        answered = Path(folder, "answer.json")
        if not answered.exists():
            messages = done.stderr.strip().splitlines() or ["no message"]
            raise Refusal(
                f"{words} ended with {done.returncode}: {messages[-1]}.",
                f"name another one with {python.option}.",
            )

        answer: dict[str, Any] = json.loads(answered.read_text())
        if "error" in answer:
            remedy = answer["remedy"] or f"name one that has it with {python.option}."
            raise Refusal(f"{python.name} {answer['error']}", remedy)
        file = Path(folder, "answer.npz")
        if not file.exists():
            return answer, {}
        with np.load(file, allow_pickle=False) as loaded:
            return answer, {name: loaded[name] for name in loaded.files}
