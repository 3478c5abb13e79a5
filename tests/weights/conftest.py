"""The framework of this interpreter, asked in this process: starting it takes 6 s each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rnnbench.errors import BuildError
from rnnbench.running import in_build
from rnnworker.checkpoint_readers import Refusal
from rnnworker.checkpoints import ACTIONS


def ask(
    action: str, *, arrays: Mapping[str, np.ndarray] | None = None, **question: Any
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """As `in_build.ask`, whose own test is `test_weights`."""
    del question["build"], question["root"]
    if arrays is not None:
        question["arrays"] = dict(arrays)
    try:
        answer = ACTIONS[action](**question)
    except Refusal as error:
        raise BuildError(error.args[0], where="build current", remedy=error.args[1]) from error
    return answer, answer.pop("arrays", {})


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(in_build, "ask", ask)
