"""The framework of this interpreter, asked in this process: starting it takes 6 s each time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnnweights import in_framework
from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Conversion, Stated, convert


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


def converted(source: Path, to: str, target: str, stated: Stated) -> Conversion:
    """The conversion of a file that no framework is needed for."""
    return convert(source, to, target, stated, ask, source.with_name("written"))
