"""`compare` measures nothing if a certificate says that this would answer nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands.question import _check_can_be_compared
from rnnbench.errors import ConfigError
from rnnbench.records.store import Place, write_json
from tests.factory import as_run, planned_certificate
from tests.running.test_running_train import planned

CERTIFIED = {"status": "certified"}
MASK = "mine.py, line 4: rnn=block does not support a mask"
REFUSED = {"status": "refused", "why": MASK, "function_why": MASK}
FAILED = {"status": "failed", "function_why": "ValueError: mine.py, line 3"}
ALL = "no implementation can compute mine: "


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"block": CERTIFIED, "keras": CERTIFIED}, None),
        ({"block": REFUSED, "keras": CERTIFIED}, "block cannot compute mine: mine.py, line 4"),
        ({"block": FAILED, "keras": CERTIFIED}, None),  # the page says what is wrong with it
        ({"block": FAILED, "keras": FAILED}, f"{ALL}ValueError: mine.py, line 3"),
        ({"block": REFUSED, "keras": REFUSED}, f"{ALL}mine.py, line 4"),
        ({"keras": FAILED}, f"{ALL}ValueError: mine.py, line 3"),  # two devices, not trained
    ],
)
@pytest.mark.parametrize("is_trained", [False, True])
def test_what_would_answer_nothing_is_not_measured(
    tmp_path: Path, entries: dict, said: str | None, is_trained: bool
) -> None:
    runs = []
    for name in entries:
        for device in ("cpu_1", "cpu_2"):
            made = planned(f"{name}-{device}")
            made["certificate"] = "key"
            made["choices"] |= {"rnn": name, "device": device}
            made["config"]["measure"]["uncertified"] = is_trained
            runs.append(as_run(made))
    place = Place(tmp_path, tmp_path / "results", "here", "asked", tmp_path / "lock")
    content = {"schema": 3, "model": "mine", "implementations": entries, "digest": "d"}
    write_json(place.folder / "certificates/key.json", content)
    # Of a model that was corrected since.
    old = {**content, "implementations": {"keras": REFUSED}}
    write_json(place.folder / "certificates/old.json", old)
    files = {name: name for name in entries}
    planned_one = planned_certificate("d", files, ["cpu_1", "cpu_2"])
    write_json(place.folder / "certificates.json", {"key": planned_one})
    if said is None or (is_trained and REFUSED not in entries.values()):
        return _check_can_be_compared(runs, place)
    if is_trained:  # what is refused cannot be trained
        said = "cannot compute mine: mine.py, line 4"
    with pytest.raises(ConfigError, match=said):
        _check_can_be_compared(runs, place)
