from __future__ import annotations

import contextlib
import os
import sys
from functools import partial

import pytest

from rnnbench.running import progress
from tests.factory import make_record


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45.2, "45 s"), (89.4, "89 s"), (90, "2 min"), (180, "3 min"), (7800, "2 h 10 min")],
)
def test_durations_as_text(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_the_remaining_time_is_estimated_from_finished_runs() -> None:
    assert progress.remaining([10.0, 20.0], 4) == ", about 60 s left"
    assert progress.remaining([], 4) == ""
    assert progress.remaining([10.0], 0) == ""
    assert progress.remaining([30.0], 4, "at most ") == ", at most about 2 min left"


def test_a_round_is_named_by_what_varies_between_rounds() -> None:
    runs = [make_record(rnn=rnn, overrides={"model.units": 8}).run for rnn in ("keras", "block")]
    device = runs[0].choices["device"]
    assert progress.place_of(runs, ["rnn", "device", "model.units"]) == f"{device} units=8"
    assert progress.place_of(runs, ["rnn"]) == ""
    assert progress.place_of(runs[:1], ["rnn", "device"]) == f"keras {device}"
    lists = [make_record(overrides={"model.metrics": [name]}).run for name in ("mae", "mse")]
    assert progress.place_of(lists[:1], ["model.metrics"]) == "metrics=['mae']"
    assert progress.place_of(lists, ["model.metrics"]) == ""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the clock, which a test sets."""
    seconds = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(progress, "QUIET_SECONDS", 10.0)
    return seconds


def test_a_long_round_reports_its_progress(now: list[float], capsys) -> None:
    reporter = progress.Progress("[1/9]", {"a": 4, "b": 4})
    first, second = (partial(reporter.reached, name) for name in "ab")
    first({"event": "handshake"})
    for on_event in (first, second):
        on_event({"event": "gate", "phase": "train", "left": 100})
    now[0] += 9
    first({"event": "gate", "left": 80})
    assert capsys.readouterr().err == "", "it is quiet for ten seconds"
    now[0] += 11
    second({"event": "gate", "left": 20})
    second({"event": "gate", "left": "few"})
    second({"event": "gate"})
    bar = "▕██████████          ▏ 50%"
    message = f"[1/9] {bar} of 2 runs, 4 turns (20 s of training left)\n"
    assert capsys.readouterr().err == message


def test_further_trainings_count(now: list[float], capsys) -> None:
    """Two more in each of two runs: half of the second one of three is half of all."""
    reporter = progress.Progress("x", {"a": 1, "b": 1})
    first, second = (partial(reporter.reached, name) for name in "ab")
    for on_event in (first, second):
        on_event({"event": "gate", "left": 10})
        on_event({"event": "gate", "left": 1})
    for on_event in (first, second):
        on_event({"event": "phase_begin", "phase": "train_again", "trainings": 2})
    for left in (10, 5):
        for on_event in (first, second):
            now[0] += 5
            on_event({"event": "gate", "left": left})
    assert "▕██████████          ▏ 50% of 2 runs, 8 turns" in capsys.readouterr().err


def test_the_last_step_is_a_turn_and_no_step_is_none(now: list[float], capsys) -> None:
    """Beginning when the last of the runs has started; progress never goes back."""
    reporter = progress.Progress("x", {"a": 2, "b": 2})
    first, second = (partial(reporter.reached, name) for name in "ab")
    first({"event": "gate", "left": 10})
    now[0] += 50
    second({"event": "gate", "left": 10})
    now[0] += 9
    first({"event": "gate", "left": 1})
    first({"event": "gate", "left": 0})
    first({"event": "epoch", "epoch": 0})
    now[0] += 1
    first({"event": "epoch", "epoch": 1})
    bar = "▕█████████           ▏ 45%"
    assert capsys.readouterr().err == f"x {bar} of 2 runs, 3 turns (12 s of training left)\n"


def test_more_epochs_than_planned_are_no_more_than_all(now: list[float], capsys) -> None:
    reporter = progress.Progress("x", {"a": 2, "b": 4})
    first, second = (partial(reporter.reached, name) for name in "ab")
    first({"event": "epoch", "epoch": 3})
    now[0] += 30
    second({"event": "epoch", "epoch": 1})
    bar = "▕████████████        ▏ 62%"
    assert capsys.readouterr().err == f"x {bar} of 2 runs, 0 turns (18 s of training left)\n"
    now[0] += 30
    second({"event": "epoch", "epoch": 4})
    assert capsys.readouterr().err == "", "nothing is left"


def test_the_progress_of_a_single_run_is_measured_in_epochs(now: list[float], capsys) -> None:
    on_event = partial(progress.Progress("name", {"a": 4}).reached, "a")
    on_event({"event": "gate", "left": 400})
    on_event({"event": "epoch", "epoch": 1})
    assert capsys.readouterr().err == "", "it is quiet for ten seconds"
    now[0] += 20
    on_event({"event": "epoch", "epoch": 1})
    message = "name ▕█████               ▏ 25% of 1 run (60 s of training left)\n"
    assert capsys.readouterr().err == message


def test_a_terminal_shows_one_bar(now: list[float], monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # of another test
    reader, writer = os.openpty()
    shown = b""
    with open(reader, "rb", buffering=0) as screen:
        with open(writer, "w") as terminal:
            monkeypatch.setattr(sys, "__stderr__", terminal)
            with progress.Progress("[1/9]", {"a": 4}) as reporter:
                for left in (100, 75, 50):
                    now[0] += 0.6
                    reporter.reached("a", {"event": "gate", "left": left})
                now[0] += progress.QUIET_SECONDS + 0.6
                reporter.reached("a", {"event": "gate", "left": 25})
        with contextlib.suppress(OSError):  # at its end, a terminal gives an error
            while part := screen.read(4096):
                shown += part
    start = f"[1/9] ▕{'':20}▏  0% of 1 run: starting"
    half = f"[1/9] ▕{'█' * 10:20}▏ 50% of 1 run (1 s of training left)"
    last = f"[1/9] ▕{'█' * 15:20}▏ 75% of 1 run (4 s of training left)"
    assert shown.decode().split("\r\x1b[K") == ["", start, half, last, ""]
    assert capsys.readouterr().err == "", "a log has no bar"


def test_labels_are_aligned() -> None:
    assert progress.progress_label(0, 24) == "[ 1/24]"
    assert progress.progress_label(23, 24) == "[24/24]"
