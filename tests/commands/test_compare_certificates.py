"""`compare` measures nothing if a certificate says that one of the two refuses the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnnbench.commands.question import _check_can_be_compared
from rnnbench.errors import ConfigError

CERTIFIED = {"status": "certified"}
REFUSED = {"status": "refused", "why": "mine.py, line 4: rnn=block does not support a mask"}
FAILED = {"status": "failed", "function_why": "ValueError: mine.py, line 3"}


def write(results: Path, **implementations: dict) -> None:
    folder = results / "machine" / "asked"
    content = {"schema": 3, "model": "mine", "implementations": implementations}
    old = {**content, "implementations": {"keras": REFUSED}}
    files = {"plan.jsonl": "", "certificates.json": json.dumps({"new": {}})}
    files |= {"certificates/new.json": json.dumps(content)}
    files["certificates/old.json"] = json.dumps(old)  # of a model that was corrected since
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("block", "keras", "said"),
    [
        (CERTIFIED, CERTIFIED, None),
        (REFUSED, CERTIFIED, "block cannot compute mine: mine.py, line 4"),
        (FAILED, CERTIFIED, None),  # the page says what is wrong with it
        (FAILED, FAILED, "no implementation can compute mine: ValueError: mine.py, line 3"),
    ],
)
def test_a_refusal_ends_it_before_anything_is_measured(
    tmp_path: Path, block: dict, keras: dict, said: str | None
) -> None:
    write(tmp_path, block=block, keras=keras)
    if said is None:
        return _check_can_be_compared("asked", tmp_path)
    with pytest.raises(ConfigError, match=said):
        _check_can_be_compared("asked", tmp_path)
