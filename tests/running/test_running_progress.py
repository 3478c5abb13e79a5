from __future__ import annotations

import pytest

from rnnbench.running import progress

EPOCH = {"event": "epoch", "epoch": 3, "start": 0.0, "seconds": 10.0, "samples": 1, "steps": 1}
EPOCH |= {"loss": 0.25, "val_acc": 0.875, "val_seconds": 2.0}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(45.2, "45 s"), (89.4, "89 s"), (90, "2 min"), (180, "3 min"), (7800, "2 h 10 min")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


def test_what_is_left_is_estimated_from_what_is_done() -> None:
    assert progress.remaining([10.0, 20.0], 4) == ", about 60 s left"
    assert progress.remaining([], 4) == ""
    assert progress.remaining([10.0], 0) == ""


def test_a_long_run_says_where_it_is(monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    say = progress.Epochs("[1/9] name", epochs=5)
    say({"event": "handshake"})
    say({"event": "epoch", "epoch": 4})
    say(EPOCH)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "[1/9] name  epoch 3/5  loss 0.25  val_acc 0.875  (24 s of training left)"


def test_a_short_run_says_nothing(capsys) -> None:
    progress.Epochs("name", epochs=5)(EPOCH)
    assert capsys.readouterr().err == ""
