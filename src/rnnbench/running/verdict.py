"""Clean, suspect or void: pure decisions about what a run reported. Each reason has a remedy."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rnnbench.records.record import Epoch, Phase, Reason, Verdict
from rnnbench.running import memory
from rnnbench.running.card_use import card_reasons
from rnnbench.running.load_reasons import load_reasons

CLOSURE = 0.01
VOID_CODES = (
    "loss_not_finite",
    "exception",
    "out_of_memory",
    "died",
    "over_limit",
    "wrong_device",
    "wrong_kernel",
    "wrong_precision",
    "warm_start",
    "no_epochs",
)


def judge(
    phases: Sequence[Phase],
    epochs: Sequence[Epoch],
    measured: Mapping[str, Any],
    failure: Reason | None = None,
    device: Sequence[Reason] = (),
    turns: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> Verdict:
    """The verdict on a run from its phases, epochs, `turns` and facts; `failure` is what ended it
    early, if anything did, `device` what is wrong with its device (`device_reasons`)."""
    reasons = [failure] if failure else []
    reasons += device
    reasons += _kernel(measured.get("kernel"))
    reasons += _precision(measured.get("precision"))
    reasons += _start(measured)
    reasons += _loss(epochs)
    reasons += load_reasons(phases, measured, turns)
    reasons += card_reasons(measured.get("card_use"))
    reasons += _closure(measured.get("closure"))
    if not epochs and not failure:
        reasons.append(Reason("no_epochs", "no epoch was finished", "look at the run's log."))
    if any(reason.code in VOID_CODES for reason in reasons):
        return Verdict("void", tuple(reasons))
    return Verdict("suspect" if reasons else "clean", tuple(reasons))


def failure_reason(
    events: Sequence[Mapping[str, Any]],
    exit_code: int,
    phase: str,
    over_limit: str | None,
    log_tail: str = "",
    memory_ran_out: bool = False,
) -> Reason | None:
    """What ended the worker early, or None. A SIGKILL from outside is no verdict on the
    run: the caller treats it as a failure without a record.

    **Arguments:** `log_tail` is the end of the worker's log, `memory_ran_out` says that the
    kernel killed a process of the worker's control group for memory meanwhile.
    """
    if over_limit:
        return Reason(
            "over_limit",
            f"phase {over_limit} was over its limit and was ended{_last_event(events)}",
            f"raise limits.{over_limit}, or look at the run's log for what hangs.",
        )
    error = next((event for event in events if event["event"] == "error"), None)
    if error is not None:
        text = f"{error.get('type')} in phase {error.get('phase')}: {error.get('message')}"
        if error.get("type") in ("MemoryError", "ResourceExhaustedError") or memory.said(text):
            return _out_of_memory(text)
        return Reason("exception", text, "the traceback is in the run's log.")
    if exit_code < 0:
        name = _signal_name(-exit_code)
        if memory_ran_out and -exit_code == signal.SIGKILL:
            return _out_of_memory(f"the kernel ended it for memory ({name}) in phase {phase}")
        if memory.said(log_tail):
            return _out_of_memory(f"died for memory in native code ({name}) in phase {phase}")
        return Reason(
            "died", f"died in native code ({name}) in phase {phase}", "look at the run's log."
        )
    if exit_code != 0:
        return Reason(
            "died", f"ended with exit code {exit_code} in phase {phase}", "look at the run's log."
        )
    return None


def _out_of_memory(text: str) -> Reason:
    return Reason(
        "out_of_memory",
        text,
        "a smaller batch, a machine with more memory, or another limits.memory_bytes.",
    )


def _last_event(events: Sequence[Mapping[str, Any]]) -> str:
    """The last thing it said; a handshake says nothing."""
    told = [event for event in events if event["event"] != "handshake"]
    if not told:
        return "; it never said a word"
    last = told[-1]
    detail = last.get("epoch") if last["event"] == "epoch" else last.get("phase")
    return f"; its last event was {last['event']} {detail if detail is not None else ''}".rstrip()


def closure(phases: Sequence[Phase], epochs: Sequence[Epoch]) -> float | None:
    """The share of the training phase that its set-up, epochs, validations and end leave open;
    0 when the parts add up to the whole. The parts are differences of the worker's monotonic
    clock, read in `fit`; the whole is from the phase's begin to its end by another clock, which
    nobody slews. So it finds an epoch that is missing or counted twice, a wrong length, and a
    monotonic clock that runs fast or slow. None where the worker did not measure the whole."""
    train = next((phase for phase in phases if phase.name == "train"), None)
    if train is None or not epochs:
        return None
    set_up, tear_down, whole = (
        _number(train.details.get(name)) for name in ("set_up", "tear_down", "second_clock")
    )
    if set_up is None or tear_down is None or not whole:
        return None
    took = (epoch.seconds if epoch.took is None else epoch.took for epoch in epochs)
    parts = sum(took) + sum(epoch.val_seconds or 0.0 for epoch in epochs)
    return 1.0 - (set_up + parts + tear_down) / whole


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names of their own
        return f"signal {number}"


def _kernel(kernel: Mapping[str, Any] | None) -> list[Reason]:
    """What the label promises against what ran; nothing is promised where `expected` is None.
    Void is what contradicts the label; where nothing was seen, the run is marked."""
    if not kernel or kernel.get("expected") is None:
        return []
    found, expected = sorted(kernel.get("found") or []), sorted(kernel["expected"])
    if found == expected:
        return []
    if not found:
        return [
            Reason(
                "not_attested",
                f"no recurrent kernel was seen, so that it ran {' and '.join(expected)} is not "
                "attested",
                "nothing contradicts it either; compare with a run whose kernel was seen.",
            )
        ]
    ran = " and ".join(found)
    return [
        Reason(
            "wrong_kernel",
            f"ran {ran} instead of {' and '.join(expected)}",
            "choose the rnn that says what runs, or rnn=auto, which promises nothing; in an rnn of "
            "your own correct kernels, or write null.",
        )
    ]


def _precision(told: Any) -> list[Reason]:
    """What the layers computed in, read back, against what was asked."""
    if not isinstance(told, Mapping) or told.get("as_asked") is not False:
        return []
    used = f"policy {told.get('policy')}, layers {told.get('layers')}, TF32 {told.get('tf32')}"
    return [
        Reason(
            "wrong_precision",
            f"computed with {used} instead of {told.get('asked')}",
            "choose a precision that this implementation has.",
        )
    ]


def _start(measured: Mapping[str, Any]) -> list[Reason]:
    """The weights right before training against the canonical ones of model and seed."""
    canonical, started = (
        measured.get(name) for name in ("weights_sha256", "started_weights_sha256")
    )
    if canonical is None or started is None or canonical == started:
        return []
    return [
        Reason(
            "warm_start",
            "training did not start from the canonical weights of its model and seed",
            "let the model's function build layers only, without loading or training weights.",
        )
    ]


def _loss(epochs: Sequence[Epoch]) -> list[Reason]:
    losses = [epoch.loss for epoch in epochs]
    for epoch, loss in zip(epochs, losses, strict=True):
        if loss is None or not math.isfinite(loss):
            return [
                Reason(
                    "loss_not_finite",
                    f"loss became NaN or infinite in epoch {epoch.epoch}",
                    "a smaller learning rate, gradient clipping, or check the data.",
                )
            ]
    if len(losses) > 1 and losses[-1] >= losses[0]:  # type: ignore[operator]
        return [
            Reason(
                "loss_not_falling",
                f"loss did not fall: {losses[0]:.4g} in epoch 1, {losses[-1]:.4g} in the last",
                "more epochs or another learning rate; its time is still a time.",
            )
        ]
    return []


def _closure(value: float | None) -> list[Reason]:
    if value is None or abs(value) <= CLOSURE:
        return []
    return [
        Reason(
            "closure",
            f"set-up, epochs, validation and end leave {value:.1%} of the training time, by "
            "another clock, unexplained",
            "measure again: an epoch was lost, or the clock was being set; or take longer epochs "
            "(a larger dataset), so that the gaps between them do not count.",
        )
    ]
