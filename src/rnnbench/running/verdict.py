"""Decides whether a run is clean, suspect or void, from what it reported. Each reason has a remedy.
No side effects."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Epoch, Phase, Reason, Verdict
from rnnbench.running.load import card_reasons, load_reasons
from rnnbench.running.worker import Outcome
from rnnworker import cards

CLOSURE = 0.01
RAN_OUT = "ran out of memory in native code"
VOID_CODES = (
    "loss_not_finite", "exception", "out_of_memory", "died", "over_limit", "wrong_device",
    "wrong_kernel", "wrong_precision", "warm_start", "no_epochs",
)  # fmt: skip


def judge(
    phases: Sequence[Phase],
    epochs: Sequence[Epoch],
    measured: Mapping[str, Any],
    failure: Reason | None = None,
    device: Sequence[Reason] = (),
    disturbed: Sequence[bool] = (),
) -> Verdict:
    """The verdict on a run from its phases, epochs and `measured` facts. `failure` is the
    `failure_reason`, `device` the `device_reasons`; `disturbed`: of each of its turns, whether
    other processes used the cores."""
    reasons = [failure] if failure else []
    reasons += device
    reasons += _kernel(measured.get("kernel"))
    reasons += _precision(measured.get("precision"))
    reasons += _start(measured)
    reasons += _loss(epochs)
    reasons += load_reasons(phases, measured, disturbed)
    reasons += card_reasons(measured.get("card_use"))
    reasons += _closure(measured.get("closure"))
    if not epochs and not failure:
        reasons.append(Reason("no_epochs", "no epoch was completed", "see the run's log."))
    is_void = any(reason.code in VOID_CODES for reason in reasons)
    return Verdict("void" if is_void else "suspect" if reasons else "clean", tuple(reasons))


def failure_reason(outcome: Outcome) -> Reason | None:
    """Why the worker ended early, or None. An external SIGKILL does not count against the run: the
    caller must treat it as a failure without a record."""
    events, phase, exit_code = outcome.events, outcome.phase, outcome.exit_code
    if over_limit := outcome.over_limit:
        return Reason(
            "over_limit",
            f"phase {over_limit} exceeded its time limit and was terminated{_last_event(events)}",
            f"raise limits.{over_limit}, or see the run's log for what hangs.",
        )
    error = next((event for event in events if event["event"] == "error"), None)
    if error is not None:
        text = f"{error.get('type')} in phase {error.get('phase')}: {error.get('message')}"
    elif exit_code < 0:
        text = f"was terminated by {_signal_name(-exit_code)} in phase {phase}"
    elif exit_code != 0:
        text = f"ended with exit code {exit_code} in phase {phase}"
    else:
        return None
    if outcome.out_of_memory:
        if error is None:
            by_kernel = exit_code == -signal.SIGKILL
            text = "the kernel's OOM killer ended it" if by_kernel else RAN_OUT
            text += f" ({_signal_name(-exit_code)}) in phase {phase}"
        return Reason(
            "out_of_memory",
            text,
            "use a smaller batch, a machine with more memory, or a higher limits.memory_bytes.",
        )
    if error is not None:
        return Reason("exception", text, "see the traceback in the run's log.")
    return Reason("died", text, "see the run's log.")


def _last_event(events: Sequence[Mapping[str, Any]]) -> str:
    """The last event other than a handshake, as the end of a sentence."""
    reported = [event for event in events if event["event"] != "handshake"]
    if not reported:
        return "; no events were received"
    last = reported[-1]
    detail = last.get("epoch") if last["event"] == "epoch" else last.get("phase")
    return f"; its last event was {last['event']} {detail if detail is not None else ''}".rstrip()


def closure(phases: Sequence[Phase], epochs: Sequence[Epoch]) -> float | None:
    """The share of the training phase that its set-up, epochs, validations and tear-down do not
    explain; 0 if the parts add up to the whole.

    The parts are differences of the worker's monotonic clock, read in `fit`. The whole is the
    phase's duration by a second clock that is never slewed. The closure thus reveals an epoch that
    is missing or counted twice, a wrong duration, and a monotonic clock that runs too fast or too
    slow. None if the worker did not measure the whole."""
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
    except ValueError:  # most real-time signals have no names
        return f"signal {number}"


def _kernel(kernel: Mapping[str, Any] | None) -> list[Reason]:
    """Compares the kernels that ran with those that the label promises (`expected`; None promises
    nothing). A contradiction makes the run void; if no kernel was observed, it is suspect."""
    if not kernel or kernel.get("expected") is None:
        return []
    found, expected = sorted(kernel.get("found") or []), sorted(kernel["expected"])
    if found == expected:
        return []
    promised = " and ".join(expected)
    if not found:
        text = f"no recurrent kernel was observed, so {promised} is not attested"
        remedy = "nothing contradicts it either; compare with a run whose kernel was observed."
        return [Reason("not_attested", text, remedy)]
    remedy = (
        "choose the rnn that names what ran, or rnn=auto, which promises no kernel; in a "
        "user-supplied rnn correct `kernels` or set it to null."
    )
    return [Reason("wrong_kernel", f"ran {' and '.join(found)} instead of {promised}", remedy)]


def _precision(used: Any) -> list[Reason]:
    """Compares the precision read back from the layers with the requested one."""
    if not isinstance(used, Mapping) or used.get("as_asked") is not False:
        return []
    actual = f"policy {used.get('policy')}, layers {used.get('layers')}, TF32 {used.get('tf32')}"
    text = f"computed with {actual} instead of {used.get('asked')}"
    return [Reason("wrong_precision", text, "choose a precision this implementation supports.")]


def _start(measured: Mapping[str, Any]) -> list[Reason]:
    """Compares the weights right before training with the canonical ones of model and seed."""
    canonical, started = (
        measured.get(name) for name in ("weights_sha256", "started_weights_sha256")
    )
    if canonical is None or started is None or canonical == started:
        return []
    text = "training did not start from the canonical weights of its model and seed"
    remedy = "the model's function must only build layers, not load or train weights."
    return [Reason("warm_start", text, remedy)]


def _loss(epochs: Sequence[Epoch]) -> list[Reason]:
    losses = [epoch.loss for epoch in epochs]
    for epoch, loss in zip(epochs, losses, strict=True):
        if loss is None or not math.isfinite(loss):
            text = f"loss became NaN or infinite in epoch {epoch.epoch}"
            remedy = "lower the learning rate, clip gradients, or check the data."
            return [Reason("loss_not_finite", text, remedy)]
    if len(losses) > 1 and losses[-1] >= losses[0]:  # type: ignore[operator]
        text = f"loss did not fall: {losses[0]:.4g} in epoch 1, {losses[-1]:.4g} in the last"
        remedy = "train more epochs or change the learning rate; its times are valid nevertheless."
        return [Reason("loss_not_falling", text, remedy)]
    return []


def _closure(value: float | None) -> list[Reason]:
    if value is None or abs(value) <= CLOSURE:
        return []
    return [
        Reason(
            "closure",
            f"set-up, epochs, validations and tear-down leave {value:.1%} of the training time (by "
            "a second clock) unexplained",
            "measure again, since an epoch was lost or the clock was being adjusted; or use longer "
            "epochs (a larger dataset), so that the gaps between them do not matter.",
        )
    ]


REMEDY = "run it on a machine that has the requested device."


def device_reasons(
    device: Mapping[str, Any], measured: Mapping[str, Any], hardware: Mapping[str, Any]
) -> list[Reason]:
    """Reasons why the run did not have the requested device.

    **Arguments:**

    - `device`: the requested device: ``kind``, ``threads``, ``replicas``, and ``gpu``, the model of
      the card.
    - `measured`: facts reported by the framework: ``threads``, ``replicas``, ``framework_devices``,
      and the names of its ``framework_cards``; and ``card``, the one assigned to the run, with its
      ``further`` ones (`cards.select_card`).
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``; used if the assigned
      card is unknown.
    """
    seen = [str(name).upper() for name in measured.get("framework_devices") or []]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    texts = [*_threads(measured.get("threads") or {})]
    requested, used = cards.replicas_of(device), measured.get("replicas") or 1
    if seen and used != requested:
        texts.append(f"training on {requested} devices was requested, but it used {used}")
    if device.get("kind") == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if device.get("kind") == "gpu" and seen and not gpus:
        texts.append("the framework saw no GPU")
    if device.get("kind") == "gpu":
        texts += _card(device.get("gpu"), gpus, measured, hardware)
    return [Reason("wrong_device", text, REMEDY) for text in texts]


def _card(
    requested: str | None,
    seen: list[str],
    measured: Mapping[str, Any],
    hardware: Mapping[str, Any],
) -> list[str]:
    card = measured.get("card")
    reported = [str(name) for name in measured.get("framework_cards") or []]
    assigned = cards.all_cards(card)
    gpus = assigned or hardware.get("gpus") or []
    names = sorted({str(gpu.get("name")) for gpu in gpus} | set(reported))
    texts = []
    if requested and not all(cards.is_model(requested, name) for name in names):
        texts.append(f"{requested} was requested, but the card is {', '.join(names)}")
    elif card and not all(cards.is_model(str(card.get("name")), name) for name in reported):
        saw = ", ".join(reported)
        texts.append(f"card {card.get('name')} was assigned, but the framework saw {saw}")
    if card and seen and len(seen) != len(assigned):
        number = "one card was" if len(assigned) == 1 else f"{len(assigned)} cards were"
        saw = f"{len(seen)}: {', '.join(seen)}"
        texts.append(f"{number} assigned, but the framework saw {saw}")
    return texts


def _threads(threads: Mapping[str, Any]) -> list[str]:
    requested = threads.get("asked")
    actual = {
        "intra_op": threads.get("intra_op"),
        "pinned_to": len(threads["pinned_to"]) if "pinned_to" in threads else None,
    }
    return [
        f"{requested} threads were requested, but {key} is {number}"
        for key, number in actual.items()
        if requested is not None and number is not None and number != requested
    ]
