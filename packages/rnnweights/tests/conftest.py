from __future__ import annotations

from typing import Any

import asking
import pytest

from rnnweights import command


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(python: object, action: str, **question: Any) -> Any:
        return asking.ask(action, **question)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(command, "ask", ask)
