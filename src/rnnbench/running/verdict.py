"""Decides whether a run is clean, suspect or void, from what it reported: its phases, epochs and
facts, the load of other processes, and two samples of its card. Each reason has a remedy. No side
effects."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from rnnbench.records.record import Epoch, Phase, Reason, Verdict
from rnnbench.running.worker import Outcome
from rnnworker import cards

CLOSURE = 0.01
# Seconds for each epoch: Keras took 1.1 to 4.4 ms between two epochs in the 194 records of
# reports/answers, which a short epoch must not be blamed for.
BETWEEN_EPOCHS = 0.01
FOREIGN_SHARE = 0.05
STEAL_SHARE = 0.02
# CPU seconds: the kernel counts in ticks of 10 ms, and fewer than five prove nothing.
LEAST_LOAD = 0.05
SPINS_SHARE = 0.5
HEAT_SHARE = 0.01
STOP_THEM = "stop them and measure the run again: rnnbench retry NAME."
ANOTHER_DEVICE = "run it on a machine that has the requested device."
RAN_OUT = "ran out of memory in native code"
LESS_MEMORY = (
    "use shorter sequences, a smaller batch if it has more than one sample, or a machine with more "
    "memory"
)
VOID_CODES = (
    "loss_not_finite", "exception", "out_of_memory", "died", "over_limit", "wrong_device",
    "wrong_kernel", "wrong_precision", "warm_start", "no_epochs",
)  # fmt: skip
Reasons = Iterator[Reason]


def judge(
    phases: Sequence[Phase],
    epochs: Sequence[Epoch],
    measured: Mapping[str, Any],
    failure: Reason | None = None,
    device: Sequence[Reason] = (),
    disturbed: Sequence[bool] = (),
) -> Verdict:
    """`failure`: the `failure_reason`; `device`: the `device_reasons`; `disturbed`: of each of the
    run's turns, whether other processes used the cores."""
    reasons = (
        *([failure] if failure else ()),
        *device,
        *_kernel(measured.get("kernel") or {}),
        *_precision(measured.get("precision")),
        *_start(measured),
        *_loss(epochs),
        *_load(phases, measured, disturbed),
        *_spins(measured.get("asleep") or {}),
        *card_reasons(measured.get("card_use") or {}),
        *_closure(measured.get("closure") or 0.0, phases, epochs),
    )
    if not epochs and not failure:
        reasons += (Reason("no_epochs", "no epoch was completed", "see the run's log."),)
    is_void = any(reason.code in VOID_CODES for reason in reasons)
    return Verdict("void" if is_void else "suspect" if reasons else "clean", reasons)


def failure_reason(outcome: Outcome) -> Reason | None:
    """Why the worker ended early, or None. An external SIGKILL does not count against the run: the
    caller must treat it as a failure without a record."""
    events, phase, exit_code = outcome.events, outcome.phase, outcome.exit_code
    if over_limit := outcome.over_limit:
        text = f"phase {over_limit} exceeded its time limit and was terminated{_last_event(events)}"
        remedy = f"raise limits.{over_limit}, or see the run's log for what hangs."
        return Reason("over_limit", text, remedy)
    error = next((event for event in events if event["event"] == "error"), None)
    if error is not None:
        text = f"{error.get('type')} in phase {error.get('phase')}: {error.get('message')}"
    elif exit_code == 0:
        return None
    elif exit_code > 0:
        text = f"ended with exit code {exit_code} in phase {phase}"
    else:
        name, what = f"signal {-exit_code}", RAN_OUT
        with suppress(ValueError):  # most real-time signals have no names
            name = signal.Signals(-exit_code).name
        if exit_code == -signal.SIGKILL:
            what = "the kernel's OOM killer ended it"
        ended = f"{what} ({name})" if outcome.out_of_memory else f"was terminated by {name}"
        text = f"{ended} in phase {phase}"
    if outcome.out_of_memory:
        remedy = f"{LESS_MEMORY}, or a higher limits.memory_bytes if one is set."
        return Reason("out_of_memory", text, remedy)
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
    set_up, tear_down, whole = map(_training(phases).get, ("set_up", "tear_down", "second_clock"))
    if not epochs or set_up is None or tear_down is None or not whole:
        return None
    took = (epoch.seconds if epoch.took is None else epoch.took for epoch in epochs)
    parts = sum(took) + sum(epoch.val_seconds or 0.0 for epoch in epochs)
    return float(1.0 - (set_up + parts + tear_down) / whole)


def _training(phases: Sequence[Phase]) -> Mapping[str, Any]:
    return next((phase.details for phase in phases if phase.name == "train"), {})


def _closure(value: float, phases: Sequence[Phase], epochs: Sequence[Epoch]) -> Reasons:
    seconds = abs(value) * (_training(phases).get("second_clock") or math.inf)
    if abs(value) > CLOSURE and seconds > BETWEEN_EPOCHS * len(epochs):
        yield Reason(
            "closure",
            f"set-up, epochs, validations and tear-down leave {value:.1%} of the training time (by "
            "a second clock) unexplained",
            "measure the run again, since an epoch was lost or a clock was being adjusted: "
            "rnnbench retry NAME.",
        )


def _kernel(kernel: Mapping[str, Any]) -> Reasons:
    """Compares the kernels that ran with those that the label promises (`expected`; None promises
    nothing). A contradiction makes the run void; if no kernel was observed, it is suspect."""
    expected = kernel.get("expected")
    found = sorted(kernel.get("found") or [])
    if expected is None or found == sorted(expected):
        return
    promised = " and ".join(sorted(expected))
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


def _precision(used: Any) -> Reasons:
    """Compares the precision read back from the layers with the requested one."""
    if isinstance(used, Mapping) and used.get("as_asked") is False:
        read = f"policy {used.get('policy')}, layers {used.get('layers')}, TF32 {used.get('tf32')}"
        text = f"computed with {read} instead of {used.get('asked')}"
        yield Reason("wrong_precision", text, "choose a precision this implementation supports.")


def _start(measured: Mapping[str, Any]) -> Reasons:
    """Compares the weights right before training with the canonical ones of model and seed."""
    canonical, started = map(measured.get, ("weights_sha256", "started_weights_sha256"))
    if None not in (canonical, started) and canonical != started:
        text = "training did not start from the canonical weights of its model and seed"
        remedy = "the model's function must only build layers, not load or train weights."
        yield Reason("warm_start", text, remedy)


def _loss(epochs: Sequence[Epoch]) -> Reasons:
    first, last = (epochs[0].loss, epochs[-1].loss) if epochs else (None, None)
    for epoch in epochs:
        if epoch.loss is None or not math.isfinite(epoch.loss):
            text = f"loss became NaN or infinite in epoch {epoch.epoch}"
            remedy = "lower the learning rate, clip gradients, or check the data."
            if epoch is epochs[0]:
                remedy = "look for NaN in the data and in what the implementation computes, which "
                remedy += "its certificate in the report compares with the float64 reference."
            yield Reason("loss_not_finite", text, remedy)
            return
    if len(epochs) > 1 and first is not None and last is not None and last >= first:
        text = f"loss did not fall: {first:.4g} in epoch 1, {last:.4g} in the last"
        remedy = "train more epochs or change the learning rate; its times are valid nevertheless."
        yield Reason("loss_not_falling", text, remedy)


def _load(
    phases: Sequence[Phase], measured: Mapping[str, Any], disturbed: Sequence[bool]
) -> Reasons:
    """Load of other processes in a run's phases and in its turns. A minority of disturbed turns is
    excluded from its ratios and needs no reason."""
    in_turns = len(disturbed) > 1
    loads = [(phase, phase.details.get("load") or {}) for phase in phases if phase.timed]
    # Other processes on the cores that feed a card matter only once those cores are scarce.
    pinned = (measured.get("threads") or {}).get("pinned_to") or []
    cores = (len(pinned) if measured.get("card") else 1) or 1
    label = "a core" if cores == 1 else f"its {cores} cores"
    for phase, load in loads:
        if in_turns and phase.name == "train":
            continue
        seconds = cores * (phase.seconds - (phase.details.get("waited") or 0.0)) or 1.0
        foreign, steal = (load.get(name, 0) for name in ("foreign", "steal"))
        if foreign > max(LEAST_LOAD, FOREIGN_SHARE * seconds):
            text = f"other processes used {foreign / seconds:.0%} of {label} during {phase.name}"
            yield Reason("foreign_load", text, STOP_THEM)
        if steal > max(LEAST_LOAD, STEAL_SHARE * seconds):
            text = f"the hypervisor took {steal / seconds:.0%} of {label} during {phase.name}"
            yield Reason("steal", text, "measure again, or on a dedicated machine.")
    if any("own" in load and "foreign" not in load for _, load in loads):
        yield Reason(
            "load_unknown",
            "the load of other processes is unknown: /proc/stat does not report it on this host",
            "measure on a host that reports it (not under gVisor), or accept the times as they "
            "are.",
        )
    if in_turns and 2 * sum(disturbed) > len(disturbed):
        text = f"other processes used the cores in {sum(disturbed)} of its {len(disturbed)} turns"
        yield Reason("foreign_load", text, STOP_THEM)


def _spins(asleep: Mapping[str, Any]) -> Reasons:
    """Threads that do not sleep while their run waits disturb the run that has the turn. Those of
    torch (libgomp) spin for some 8 ms, which the lead-in of the next turn (a fifth of a turn)
    covers."""
    waited, used = (asleep.get(name) or 0.0 for name in ("seconds", "cpu_seconds"))
    if waited and used > max(0.1, SPINS_SHARE * waited):
        yield Reason(
            "spins",
            f"used {used / waited:.0%} of a core while others had their turns: its threads spin",
            "measure it on its own (measure.turns: false), or set OMP_WAIT_POLICY=passive (with "
            "Intel's OpenMP KMP_BLOCKTIME=0) in build.environment; its steps may then take longer.",
        )


class CardState(msgspec.Struct):
    """A sample of a card (`rnnworker.cards.CardState.read`), None for what it does not report."""

    t: float
    joules: float | None = None
    thermal_s: float | None = None
    power_s: float | None = None
    ecc: int | None = None
    others: int | None = None
    celsius: float | None = None
    memory_bytes: int | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    slowed: list[str] | None = None
    further: list[CardState] = []


def card_use(events: Sequence[Mapping[str, Any]], epochs: Sequence[Epoch]) -> dict[str, Any]:
    """Facts for ``measured``. Empty if the card was not sampled or the training had several turns.

    Of several cards: the sum of energy and errors, the largest share, temperature and memory, the
    lowest clocks, the reasons of any; a sum is None if a card does not report its part.

    - `joules_per_sample` and `card_watts`: over the whole training with its validations.
    - `card_use`: `seconds` between the two samples; `joules`; the shares of the seconds in which
      `heat` and the `power_limit` reduced the clocks; new `ecc` errors; the larger value of both
      samples for `others` (other processes), `celsius` and `memory_bytes`; `sm_mhz` and
      `memory_mhz` before and after; `slowed`: reasons for reduced clocks in either sample. Values
      that the card does not report are None.
    """
    samples = [e.get("card") for e in events if e["event"] == "turn" and e.get("phase") == "train"]
    try:
        ((first, last),) = msgspec.convert(samples, list[tuple[CardState, CardState]])
    except ValueError:  # no card, several turns or a malformed sample
        return {}
    seconds = last.t - first.t
    if seconds <= 0:
        return {}
    before, after = ([sample, *sample.further] for sample in (first, last))

    def known(states: Sequence[CardState], name: str) -> list[Any]:
        return [value for state in states if (value := getattr(state, name)) is not None]

    def used(name: str) -> list[Any]:
        """For each card; None if it is unknown or decreased, as when the driver was reloaded."""
        cards = zip(before, after, strict=True)
        pairs = ((getattr(one, name), getattr(other, name)) for one, other in cards)
        return [b - a if None not in (a, b) and b >= a else None for a, b in pairs]

    def total(name: str) -> Any:
        return None if None in used(name) else sum(used(name))

    def share(name: str) -> float | None:
        spans = [span for span in used(name) if span is not None]
        return max(spans) / seconds if spans else None

    joules, count = total("joules"), sum(epoch.samples or 0 for epoch in epochs)
    both = [*before, *after]
    use: dict[str, Any] = {"seconds": seconds, "joules": joules}
    use |= {"heat": share("thermal_s"), "power_limit": share("power_s"), "ecc": total("ecc")}
    for name in ("others", "celsius", "memory_bytes"):
        use[name] = max(known(both, name), default=None)
    for name in ("sm_mhz", "memory_mhz"):
        use[name] = [min(known(states, name), default=None) for states in (before, after)]
    use["slowed"] = sorted({why for whys in known(both, "slowed") for why in whys})
    return {
        "joules_per_sample": joules / count if joules is not None and count else None,
        "card_watts": joules / seconds if joules is not None else None,
        "card_use": use,
    }


def card_reasons(use: Mapping[str, Any]) -> Reasons:
    """Why a ``card_use`` makes a run suspect."""
    if (heat := use.get("heat") or 0.0) > HEAT_SHARE:
        text = f"heat reduced the card's clocks for {heat:.0%} of the training"
        yield Reason("card_hot", text, "improve the cooling and measure the run again.")
    if others := use.get("others"):
        text = f"{others} other {'process' if others == 1 else 'processes'} used the card"
        yield Reason("card_shared", text, "stop them and measure the run again.")
    if errors := use.get("ecc"):
        text = f"the card's memory had {errors} uncorrected {'error' if errors == 1 else 'errors'}"
        yield Reason("card_ecc", text, "measure on another card.")


def device_reasons(
    device: Mapping[str, Any], measured: Mapping[str, Any], hardware: Mapping[str, Any]
) -> list[Reason]:
    """Reasons why the run did not have the requested `device`, a section of the config.

    - `measured`: facts reported by the framework: ``threads``, ``replicas``, ``framework_devices``,
      and the names of its ``framework_cards``; and ``card``, the one assigned to the run, with its
      ``further`` ones (`cards.select_card`).
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``; used if the assigned
      card is unknown.
    """
    threads, texts = measured.get("threads") or {}, []
    asked, intra_op, pinned = map(threads.get, ("asked", "intra_op", "pinned_to"))
    cores = pinned if pinned is None else len(pinned)
    for key, number in (("intra_op", intra_op), ("pinned_to", cores)):
        if asked is not None and number not in (None, asked):
            texts.append(f"{asked} threads were requested, but {key} is {number}")
    seen = [str(name).upper() for name in measured.get("framework_devices") or []]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    requested, used = cards.replicas_of(device), measured.get("replicas") or 1
    if seen and used != requested:
        texts.append(f"training on {requested} devices was requested, but it used {used}")
    if device.get("kind") == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if device.get("kind") == "gpu":
        if seen and not gpus:
            texts.append("the framework saw no GPU")
        texts += _card(device.get("gpu"), gpus, measured, hardware)
    return [Reason("wrong_device", text, ANOTHER_DEVICE) for text in texts]


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
