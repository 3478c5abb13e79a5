"""Decides whether a run is clean, suspect or void, from what it reported: its phases, epochs and
facts, the load of other processes, and what its card did. Each reason has a remedy. No side
effects."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rnnbench.records.measured import Asleep, Details, Kernel, Measured, Precision
from rnnbench.records.record import Epoch, Phase, Reason, Verdict
from rnnbench.running.card_use import card_reasons
from rnnbench.running.worker import Facts, Outcome
from rnnworker import cards
from rnnworker.user_functions import EXCEPTION, OUT_OF_MEMORY

CLOSURE = 0.01
# Seconds for each epoch: Keras took 1.1 to 4.4 ms between two epochs in the 194 records of
# reports/answers, which a short epoch must not be blamed for.
BETWEEN_EPOCHS = 0.01
FOREIGN_SHARE = 0.05
STEAL_SHARE = 0.02
# CPU seconds: the kernel counts in ticks of 10 ms, and fewer than five prove nothing.
LEAST_LOAD = 0.05
SPINS_SHARE = 0.5
STOP_THEM = "stop them and measure the run again: rnnbench retry NAME."
ANOTHER_DEVICE = "run it on a machine that has the requested device."
RAN_OUT = "ran out of memory in native code"
LESS_MEMORY = (
    "use shorter sequences, a smaller batch if it has more than one sample, or a machine with more "
    "memory"
)
VOID_CODES = (
    "loss_not_finite",
    EXCEPTION,
    OUT_OF_MEMORY,
    "died",
    "over_limit",
    "wrong_device",
    "wrong_kernel",
    "wrong_precision",
    "warm_start",
    "no_epochs",
)
Reasons = Iterator[Reason]


def judge(
    phases: Sequence[Phase],
    epochs: Sequence[Epoch],
    measured: Measured,
    failure: Reason | None = None,
    device: Sequence[Reason] = (),
    disturbed: Sequence[bool] = (),
) -> Verdict:
    """The verdict on a run, with the reasons for it.

    - `phases`, `epochs`, `measured`: of its record.
    - `failure`: the `failure_reason`.
    - `device`: the `device_reasons`.
    - `disturbed`: of each of the run's turns, whether other processes used the cores.
    """
    reasons = [
        *device,
        *_kernel(measured.kernel),
        *_precision(measured.precision),
        *_start(measured),
        *_loss(epochs),
        *_load(phases, measured, disturbed),
        *_spins(measured.asleep),
        *card_reasons(measured.card_use),
        *_closure(measured.closure, phases, epochs),
    ]
    if failure:
        reasons.insert(0, failure)
    elif not epochs:
        reasons.append(Reason("no_epochs", "no epoch was completed", "see the run's log."))

    status = "clean"
    if any(reason.code in VOID_CODES for reason in reasons):
        status = "void"
    elif reasons:
        status = "suspect"
    return Verdict(status, tuple(reasons))


def failure_reason(outcome: Outcome) -> Reason | None:
    """Why the worker ended early, or None.

    An external SIGKILL does not count against the run: the caller must treat it as a failure
    without a record.
    """
    phase = outcome.phase
    exit_code = outcome.exit_code
    limit = outcome.over_limit
    if limit:
        last = "no events were received"
        for event in outcome.events:
            kind = event["event"]
            if kind == "handshake":
                continue
            last = f"its last event was {kind}"
            detail = event.get("epoch" if kind == "epoch" else "phase")
            if detail is not None:
                last += f" {detail}"
        text = f"phase {limit} exceeded its time limit and was terminated; {last.rstrip()}"
        remedy = f"raise limits.{limit}, or see the run's log for what hangs."
        return Reason("over_limit", text, remedy)

    errors = [event for event in outcome.events if event["event"] == "error"]
    if errors:
        error = errors[0]
        text = f"{error.get('type')} in phase {error.get('phase')}: {error.get('message')}"
    elif exit_code == 0:
        return None
    elif exit_code > 0:
        text = f"ended with exit code {exit_code} in phase {phase}"
    else:
        name = f"signal {-exit_code}"
        with suppress(ValueError):  # most real-time signals have no names
            name = signal.Signals(-exit_code).name
        if not outcome.out_of_memory:
            text = f"was terminated by {name} in phase {phase}"
        elif exit_code == -signal.SIGKILL:
            text = f"the kernel's OOM killer ended it ({name}) in phase {phase}"
        else:
            text = f"{RAN_OUT} ({name}) in phase {phase}"

    if outcome.out_of_memory:
        remedy = f"{LESS_MEMORY}, or a higher limits.memory_bytes if one is set."
        return Reason(OUT_OF_MEMORY, text, remedy)
    if errors:
        return Reason(EXCEPTION, text, "see the traceback in the run's log.")
    return Reason("died", text, "see the run's log.")


def closure(phases: Sequence[Phase], epochs: Sequence[Epoch]) -> float | None:
    """The share of the training phase that its set-up, epochs, validations and tear-down do not
    explain; 0 if the parts add up to the whole. None if the worker did not measure the whole.

    - `phases`: of the run, with the details of its training.
    - `epochs`: of the run.

    The parts are differences of the worker's monotonic clock, read in `fit`. The whole is the
    phase's duration by a second clock that is never slewed. The closure thus reveals an epoch that
    is missing or counted twice, a wrong duration, and a monotonic clock that runs too fast or too
    slow.
    """
    training = _training(phases)
    whole = training.second_clock
    if not epochs or training.set_up is None or training.tear_down is None or not whole:
        return None

    took = sum(epoch.seconds if epoch.took is None else epoch.took for epoch in epochs)
    validated = sum(epoch.val_seconds or 0.0 for epoch in epochs)
    return float(1.0 - (training.set_up + (took + validated) + training.tear_down) / whole)


def _training(phases: Sequence[Phase]) -> Details:
    """The details of the training phase."""
    for phase in phases:
        if phase.name == "train":
            return phase.details
    return Details()


def _closure(
    value: float | None,
    phases: Sequence[Phase],
    epochs: Sequence[Epoch],
) -> Reasons:
    """A closure makes the run suspect if it is a large share of the training and longer than Keras
    takes between epochs. `value`: the `closure`."""
    if value is None:
        return
    whole = _training(phases).second_clock or math.inf
    is_long = abs(value) * whole > BETWEEN_EPOCHS * len(epochs)
    if is_long and abs(value) > CLOSURE:
        yield Reason(
            "closure",
            f"set-up, epochs, validations and tear-down leave {value:.1%} of the training time (by "
            "a second clock) unexplained",
            "measure the run again, since an epoch was lost or a clock was being adjusted: "
            "rnnbench retry NAME.",
        )


def _kernel(kernel: Kernel) -> Reasons:
    """Compares the kernels that ran with those that the label promises.

    A contradiction makes the run void; if no kernel was observed, it is suspect.
    """
    found = sorted(kernel.found)
    if kernel.expected is None or found == sorted(kernel.expected):
        return
    promised = " and ".join(sorted(kernel.expected))
    if found:
        yield Reason(
            "wrong_kernel",
            f"ran {' and '.join(found)} instead of {promised}",
            "choose the rnn that names what ran, or rnn=auto, which promises no kernel; in a "
            "user-supplied rnn correct `kernels` or set it to null.",
        )
    else:
        text = f"no recurrent kernel was observed, so {promised} is not attested"
        remedy = "nothing contradicts it either; compare with a run whose kernel was observed."
        yield Reason("not_attested", text, remedy)


def _precision(used: Precision) -> Reasons:
    """Compares the precision read back from the layers with the requested one."""
    if used.as_asked is False:
        read = f"policy {used.policy}, layers {list(used.layers)}, TF32 {used.tf32}"
        text = f"computed with {read} instead of {used.asked}"
        yield Reason("wrong_precision", text, "choose a precision this implementation supports.")


def _start(measured: Measured) -> Reasons:
    """Compares the weights right before training with the canonical ones of model and seed."""
    canonical = measured.weights_sha256
    started = measured.started_weights_sha256
    if canonical and started and canonical != started:
        text = "training did not start from the canonical weights of its model and seed"
        remedy = "let no function of the model change its weights after it was built."
        yield Reason("warm_start", text, remedy)


def _loss(epochs: Sequence[Epoch]) -> Reasons:
    """A loss that is not finite makes the run void; one that does not fall makes it suspect."""
    for epoch in epochs:
        if epoch.loss is not None and math.isfinite(epoch.loss):
            continue
        text = f"loss became NaN or infinite in epoch {epoch.epoch}"
        remedy = "lower the learning rate, clip gradients, or check the data."
        if epoch is epochs[0]:
            remedy = (
                "look for NaN in the data and in what the implementation computes, which "
                "its certificate in the report compares with the float64 reference."
            )
        yield Reason("loss_not_finite", text, remedy)
        return

    if len(epochs) < 2:
        return
    first = epochs[0].loss
    last = epochs[-1].loss
    if first is not None and last is not None and last >= first:
        text = f"loss did not fall: {first:.4g} in epoch 1, {last:.4g} in the last"
        remedy = "train more epochs or change the learning rate; its times are valid nevertheless."
        yield Reason("loss_not_falling", text, remedy)


def _load(
    phases: Sequence[Phase],
    measured: Measured,
    disturbed: Sequence[bool],
) -> Reasons:
    """Load of other processes in a run's phases and in its turns.

    A minority of disturbed turns is excluded from its ratios and needs no reason.
    """
    in_turns = len(disturbed) > 1
    # Other processes on the cores that feed a card matter only once those cores are scarce.
    cores = 1
    if measured.card and measured.threads.pinned_to:
        cores = len(measured.threads.pinned_to)
    label = "a core" if cores == 1 else f"its {cores} cores"

    is_unknown = False
    for phase in phases:
        if not phase.timed:
            continue
        load = phase.details.load
        if load.own is not None and load.foreign is None:
            is_unknown = True
        if in_turns and phase.name in ("train", "train_again"):
            continue
        seconds = cores * (phase.seconds - phase.details.waited) or 1.0
        foreign = load.foreign or 0.0
        if foreign > max(LEAST_LOAD, FOREIGN_SHARE * seconds):
            text = f"other processes used {foreign / seconds:.0%} of {label} during {phase.name}"
            yield Reason("foreign_load", text, STOP_THEM)
        if load.steal > max(LEAST_LOAD, STEAL_SHARE * seconds):
            text = f"the hypervisor took {load.steal / seconds:.0%} of {label} during {phase.name}"
            yield Reason("steal", text, "measure again, or on a dedicated machine.")

    if is_unknown:
        yield Reason(
            "load_unknown",
            "the load of other processes is unknown: /proc/stat does not report it on this host",
            "measure on a host that reports it (not under gVisor), or accept the times as they "
            "are.",
        )

    count = sum(disturbed)
    if in_turns and 2 * count > len(disturbed):
        text = f"other processes used the cores in {count} of its {len(disturbed)} turns"
        yield Reason("foreign_load", text, STOP_THEM)


def _spins(asleep: Asleep) -> Reasons:
    """Threads that do not sleep while their run waits disturb the run that has the turn.

    Those of torch (libgomp) spin for some 8 ms, which the lead-in of the next turn (a fifth of a
    turn) covers.
    """
    waited = asleep.seconds
    used = asleep.cpu_seconds
    if waited and used > max(0.1, SPINS_SHARE * waited):
        yield Reason(
            "spins",
            f"used {used / waited:.0%} of a core while others had their turns: its threads spin",
            "measure it on its own (measure.turns: false), or set OMP_WAIT_POLICY=passive (with "
            "Intel's OpenMP KMP_BLOCKTIME=0) in build.environment; its steps may then take longer.",
        )


def device_reasons(
    device: Facts,
    measured: Measured,
    hardware: Facts,
) -> list[Reason]:
    """Reasons why the run did not have the requested device.

    - `device`: the section of the config.
    - `measured`: of its record.
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``; used if the assigned
      card is unknown.
    """
    texts = []
    threads = measured.threads
    asked = threads.asked
    found = {"intra_op": threads.intra_op}
    if threads.pinned_to is not None:
        found["pinned_to"] = len(threads.pinned_to)
    for key, number in found.items():
        if None not in (asked, number) and number != asked:
            texts.append(f"{asked} threads were requested, but {key} is {number}")

    seen = [name.upper() for name in measured.framework_devices]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    requested = cards.replicas_of(device)
    used = measured.replicas
    if seen and used != requested:
        texts.append(f"training on {requested} devices was requested, but it used {used}")

    kind = device.get("kind")
    if kind == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if kind == "gpu":
        if seen and not gpus:
            texts.append("the framework saw no GPU")
        texts += _card(device.get("gpu"), gpus, measured, hardware)
    return [Reason("wrong_device", text, ANOTHER_DEVICE) for text in texts]


def _card(
    requested: str | None,
    seen: list[str],
    measured: Measured,
    hardware: Facts,
) -> list[str]:
    """What is wrong with the card of a run on a GPU.

    - `requested`: its model, or None for any card.
    - `seen`: the GPUs among the framework's devices.
    - `measured`, `hardware`: as for `device_reasons`.
    """
    reported = measured.framework_cards
    assigned = measured.card_names
    own = assigned or [str(gpu.get("name")) for gpu in hardware.get("gpus") or []]
    names = sorted({*own, *reported})

    texts = []
    if requested and not all(cards.is_model(requested, name) for name in names):
        found = ", ".join(names)
        texts.append(f"{requested} was requested, but the card is {found}")
    elif assigned and not all(cards.is_model(assigned[0], name) for name in reported):
        saw = ", ".join(reported)
        texts.append(f"card {assigned[0]} was assigned, but the framework saw {saw}")
    if assigned and seen and len(seen) != len(assigned):
        number = "one card was" if len(assigned) == 1 else f"{len(assigned)} cards were"
        saw = ", ".join(seen)
        texts.append(f"{number} assigned, but the framework saw {len(seen)}: {saw}")
    return texts
