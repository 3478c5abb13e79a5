"""The framework of this interpreter, asked in this process: starting it takes 6 s each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rnnweights import in_framework
from rnnweights.cells import Refusal


def ask(
    action: str, *, arrays: Mapping[str, np.ndarray] | None = None, **question: Any
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """As `frameworks.ask`, whose own tests are in `test_frameworks`."""
    if arrays is not None:
        question["arrays"] = dict(arrays)
    try:
        answer = in_framework.ACTIONS[action](**question)
    except in_framework.Refusal as error:
        what, remedy = error.args
        raise Refusal(f"this Python {what}", remedy or "name another one.") from error
    return answer, answer.pop("arrays", {})
