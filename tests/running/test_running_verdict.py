"""What makes a run suspect or void."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from rnnbench.records.measured import Measured
from rnnbench.records.record import Epoch, Phase, Reason, Verdict
from rnnbench.running.verdict import VOID_CODES, closure, device_reasons, failure_reason, judge
from rnnbench.running.worker import Outcome
from tests.factory import measured_of


def losses(*values: float | None) -> tuple[Epoch, ...]:
    return tuple(Epoch(n, 10.0 * n, 1.0, 100, 10, loss=loss) for n, loss in enumerate(values, 1))


def train(seconds: float = 10.0, timed: bool = True, **load: float) -> Phase:
    return Phase("train", 100.0, 100.0 + seconds, timed, {"load": load})


def turns(disturbed: int, undisturbed: int) -> list[bool]:
    return [True] * disturbed + [False] * undisturbed


def kernel(found: str, expected: str | None) -> dict[str, Any]:
    promised = None if expected is None else expected.split()
    return {"kernel": {"found": found.split(), "expected": promised}}


def weights(canonical: str | None, started: str | None) -> dict[str, str | None]:
    return {"weights_sha256": canonical, "started_weights_sha256": started}


def judged(measured: Mapping[str, object] = MappingProxyType({}), **given: Any) -> Verdict:
    return judge(**{"phases": [], "epochs": FALLING, "measured": measured_of(measured), **given})


FALLING = losses(2.0, 1.0)
PRECISION = {"asked": "tf32", "policy": "float32", "layers": ["float32"], "tf32": False}
CARD = {"card": {"name": "NVIDIA H200"}}
CORES = {"threads": {"asked": 8, "pinned_to": list(range(8))}}
UNKNOWN = train(own=9.0)
GOOD_LOAD = train(own=9.9, busy=10.0, foreign=0.1, steal=0.0)
GOOD_THREADS = {"asked": 2, "intra_op": 2, "inter_op": 2, "pinned_to": [0, 3]}


@pytest.mark.parametrize(
    "given",
    [
        {"phases": [GOOD_LOAD], "measured": {"threads": GOOD_THREADS, "closure": 0.002}},
        {"epochs": losses(5.0)},  # the loss of a single epoch need not fall
        {"phases": [train(foreign=0.49)]},
        {"phases": [train(steal=0.19)]},
        # Fewer than five ticks of the kernel's clock are not evidence, however short the phase.
        {"phases": [train(0.1, foreign=0.04, steal=0.04)]},
        # Load during an untimed phase does not matter.
        {"phases": [train(timed=False, foreign=9.0)]},
        {"phases": [train(timed=False, own=9.0)]},
        {"phases": [Phase("train", 0.0, 10.0, True, {})]},
        # 5 % of the time of the cores that feed the card: 8 cores, 10 seconds.
        {"phases": [train(foreign=3.9, steal=1.5)], "measured": {**CARD, **CORES}},
        {"phases": [train(own=9.0, foreign=0.0)], "disturbed": turns(5, 5)},
        *({"measured": {"closure": value}} for value in (None, 0.01, -0.01)),
        {"measured": {"kernel": None}},
        {"measured": kernel("while", "while")},
        {"measured": kernel("while", None)},
        {"measured": kernel("", None)},
        {"measured": kernel("while cudnn", "cudnn while")},
        {"measured": weights("a", "a")},
        {"measured": weights("a", None)},
        {"measured": weights(None, "b")},
    ],
)
def test_a_good_run_is_clean(given: dict[str, Any]) -> None:
    verdict = judged(**given)
    assert (verdict.status, verdict.reasons) == ("clean", ())


def test_the_remedy_of_a_loss_that_was_never_finite_is_not_the_learning_rate() -> None:
    for epochs, at_fault in ((losses(None), "certificate"), (losses(2.0, None), "learning rate")):
        (reason,) = judge([], epochs, Measured()).reasons
        assert at_fault in reason.remedy
        assert ("learning rate" in reason.remedy) == (at_fault == "learning rate")


DEVICE = Reason("wrong_device", "K80 was requested", "run it elsewhere.")
FAILURE = Reason("exception", "RuntimeError in phase build: no", "see the log.")
ALL_BAD = {"phases": [train(foreign=5.0)], "epochs": losses(1.0, None), "measured": {"closure": 1}}


@pytest.mark.parametrize(
    ("given", "status", "reasons"),  # code → what its text says
    [
        ({"epochs": losses(2.0, None)}, "void", {"loss_not_finite": "in epoch 2"}),
        ({"epochs": losses(1.0, 0.5, None)}, "void", {"loss_not_finite": "in epoch 3"}),
        ({"epochs": losses(float("inf"))}, "void", {"loss_not_finite": "in epoch 1"}),
        ({"epochs": losses(2.0, 2.0)}, "suspect", {"loss_not_falling": "2 in epoch 1, 2 in the"}),
        ({"epochs": losses(2.0, 1.0, 2.5)}, "suspect", {"loss_not_falling": "2.5 in the last"}),
        ({"epochs": ()}, "void", {"no_epochs": ""}),
        ({"device": [DEVICE]}, "void", {"wrong_device": "K80 was requested"}),
        # A failure comes first and explains missing epochs.
        ({"epochs": (), "failure": FAILURE}, "void", {"exception": "RuntimeError in phase build"}),
        ({"failure": FAILURE, "device": [DEVICE]}, "void", {"exception": "", "wrong_device": ""}),
        # All reasons are kept, and void outranks suspect.
        (ALL_BAD, "void", {"loss_not_finite": "", "foreign_load": "", "closure": ""}),
        ({"phases": [train(foreign=0.51)]}, "suspect", {"foreign_load": ""}),
        (
            {"phases": [train(foreign=4.0)]},
            "suspect",
            {"foreign_load": "used 40% of a core during train"},
        ),
        ({"phases": [train(0.1, foreign=0.06)]}, "suspect", {"foreign_load": ""}),
        ({"phases": [train(steal=0.21)]}, "suspect", {"steal": "2% of a core during train"}),
        (
            {"phases": [train(foreign=1.0, steal=1.0)]},
            "suspect",
            {"foreign_load": "", "steal": ""},
        ),
        (
            {"phases": [train(foreign=4.1)], "measured": {**CARD, **CORES}},
            "suspect",
            {"foreign_load": "5% of its 8 cores"},
        ),
        (
            {"phases": [train(steal=1.7)], "measured": {**CARD, **CORES}},
            "suspect",
            {"steal": "2% of its 8 cores"},
        ),
        ({"phases": [train(foreign=0.6)], "measured": CORES}, "suspect", {"foreign_load": "6%"}),
        ({"phases": [train(foreign=0.6)], "measured": CARD}, "suspect", {"foreign_load": "6%"}),
        ({"phases": [UNKNOWN, UNKNOWN]}, "suspect", {"load_unknown": ""}),
        ({"phases": [UNKNOWN], "disturbed": turns(0, 2)}, "suspect", {"load_unknown": ""}),
        ({"disturbed": turns(6, 4)}, "suspect", {"foreign_load": "in 6 of its 10 turns"}),
        ({"measured": {"closure": 0.011}}, "suspect", {"closure": "1.1%"}),
        ({"measured": {"closure": -0.011}}, "suspect", {"closure": "-1.1%"}),
        (
            {"measured": kernel("while", "cudnn")},
            "void",
            {"wrong_kernel": "ran while instead of cudnn"},
        ),
        ({"measured": kernel("cudnn while", "cudnn")}, "void", {"wrong_kernel": ""}),
        (
            {"measured": kernel("", "while")},
            "suspect",
            {"not_attested": "so while is not attested"},
        ),
        ({"measured": weights("a", "b")}, "void", {"warm_start": ""}),
        (
            {"measured": {"precision": {**PRECISION, "as_asked": False}}},
            "void",
            {"wrong_precision": "policy float32, layers ['float32'], TF32 False instead of tf32"},
        ),
    ],
)
def test_reasons_of_a_suspect_or_void_run(
    given: dict[str, Any], status: str, reasons: dict[str, str]
) -> None:
    verdict = judged(**given)
    assert [reason.code for reason in verdict.reasons] == list(reasons)
    assert verdict.status == status
    for reason in verdict.reasons:
        assert reason.text and reasons[reason.code] in reason.text
        assert reason.remedy.endswith(".")
        assert reason.code != "foreign_load" or "rnnbench retry" in reason.remedy


ERROR = {"event": "error", "phase": "train", "type": "RuntimeError", "message": "no"}


@pytest.mark.parametrize(
    ("events", "exit_code", "over_limit", "code", "text"),
    [
        ([], 0, "train", "over_limit", "phase train exceeded its time limit"),
        ([ERROR], -9, "train", "over_limit", "phase train exceeded its time limit"),
        ([{"event": "handshake"}], -9, "train", "over_limit", "; no events were received."),
        ([{"event": "hello"}], -9, "train", "over_limit", "; its last event was hello."),
        ([{"event": "epoch", "epoch": 3}], -9, "train", "over_limit", "event was epoch 3."),
        ([{"event": "phase_begin", "phase": "data"}], -9, "train", "over_limit", "begin data."),
        ([ERROR], 3, None, "exception", "RuntimeError in phase train: no"),
        ([{**ERROR, "type": "MemoryError"}], 3, None, "out_of_memory", "MemoryError"),
        ([{**ERROR, "type": "ResourceExhaustedError"}], 3, None, "out_of_memory", "Resource"),
        ([], -11, None, "died", "SIGSEGV in phase train"),
        ([], -40, None, "died", "signal 40 in phase train"),
        ([], 7, None, "died", "exit code 7 in phase train"),
    ],
)
def test_reasons_why_the_worker_ended_early(
    events: list[dict], exit_code: int, over_limit: str | None, code: str, text: str
) -> None:
    reason = failure_reason(
        Outcome(events, exit_code=exit_code, over_limit=over_limit, phase="train")
    )
    assert reason is not None
    assert reason.code == code and code in VOID_CODES
    assert text in f"{reason.text}."
    assert over_limit is None or "limits.train" in reason.remedy


def test_the_load_is_a_share_of_the_time_in_which_the_run_did_not_wait() -> None:
    """It worked in 2 of 10 seconds, in which others used 0.2."""
    phase = Phase("train", 0.0, 10.0, True, {"waited": 8.0, "load": {"foreign": 0.2, "steal": 0.1}})
    reasons = judge([phase], FALLING, Measured()).reasons
    assert [reason.text.split(" of ")[0] for reason in reasons] == [
        "other processes used 10%", "the hypervisor took 5%",
    ]  # fmt: skip
    assert judge([phase], FALLING, Measured(), disturbed=turns(1, 1)).reasons == ()


def test_a_worker_that_finished_has_no_failure() -> None:
    assert failure_reason(Outcome([{"event": "finished"}], phase="end")) is None


def closed(*seconds: float, whole: float = 6.0) -> float | None:
    """Closure of epochs of these `seconds`, each followed by 0.5 s of validation, with 0.3 s of
    set-up and 0.2 s of tear-down."""
    details = {"set_up": 0.3, "tear_down": 0.2, "second_clock": whole}
    phase = Phase("train", 100.0, 100.0 + whole, True, details)
    epochs = [Epoch(n, 0.0, each, 10, 1, val_seconds=0.5) for n, each in enumerate(seconds, 1)]
    return closure([phase], epochs)


def test_closure_is_the_unexplained_share_of_the_whole() -> None:
    assert closed(2.0, 2.0, whole=5.5) == pytest.approx(0.0)
    assert closed(2.0, 2.0, 2.0, whole=8.0) == pytest.approx(0.0)
    assert closed(2.0, 2.0, whole=11.0) == pytest.approx(0.5)
    # Without a whole there is none.
    assert closure([], FALLING) is None
    assert closure([train()], FALLING) is None  # as reported by older workers
    assert closed() is None
    assert closed(2.0, whole=0.0) is None


@pytest.mark.parametrize(
    ("seconds", "whole"),
    [
        ((2.0, 2.0), 8.0),  # the last of three epochs is missing
        ((2.0, 2.0, 2.0, 2.0), 8.0),  # an epoch is counted twice
        ((2.04, 2.04, 2.04), 8.0),  # each epoch is measured 2 % too long
        ((1.96, 1.96, 1.96), 8.0),
        ((2.0, 2.0, 2.0), 8.0 * 1.08),  # the monotonic clock is being slewed by 8 %
    ],
)
def test_wrong_measurements_are_detected(seconds: tuple[float, ...], whole: float) -> None:
    verdict = judge([], FALLING, measured_of({"closure": closed(*seconds, whole=whole)}))
    assert [reason.code for reason in verdict.reasons] == ["closure"]


@pytest.mark.parametrize(
    ("epochs", "seconds", "lost", "codes"),
    [
        (60, 0.1, 60 * 0.004, []),  # Keras took 4 ms between two epochs, 4 % of their time
        (60, 0.1, 60 * 0.011, ["closure"]),
        (2, 0.1, 0.1, ["closure"]),  # a third epoch is missing
        (2, 100.0, 0.1, []),  # 0.05 %
    ],
)
def test_milliseconds_between_short_epochs_are_no_lost_epoch(
    epochs: int, seconds: float, lost: float, codes: list[str]
) -> None:
    whole = epochs * seconds + lost
    train = Phase("train", 0.0, whole, True, {"second_clock": whole})
    taken = [Epoch(n, 0.0, seconds, 10, 1, loss=1 / n) for n in range(1, epochs + 1)]
    verdict = judge([train], taken, measured_of({"closure": lost / whole}))
    assert [reason.code for reason in verdict.reasons] == codes


P100 = {"gpus": [{"name": "Tesla P100-PCIE-16GB"}]}
CPU = {"kind": "cpu", "threads": 2}
GPU = {"kind": "gpu", "threads": None, "gpu": "P100 PCIE"}
SEES_ONE = {"framework_devices": ["/device:CPU:0", "/device:GPU:0"]}
SEES_NONE = {"framework_devices": ["/device:CPU:0"]}

SEES_TWO = {"framework_devices": ["cpu", "cuda:0", "cuda:1"]}
K80 = {"name": "Tesla K80", "uuid": "GPU-2", "bus": None}
BOTH = {"gpus": [K80, *P100["gpus"]]}
ANY = {"kind": "gpu", "threads": None}
PAIR = {**ANY, "replicas": 2}
TWO_K80 = {**K80, "further": [K80]}


@pytest.mark.parametrize(
    ("device", "measured", "hardware", "text"),
    [
        (CPU, {"threads": {"asked": 1, "intra_op": 2, "pinned_to": [0]}}, {}, "intra_op is 2"),
        (CPU, {"threads": {"asked": 2, "intra_op": 2, "pinned_to": [0]}}, {}, "pinned_to is 1"),
        (CPU, SEES_ONE, P100, "a CPU run saw /DEVICE:GPU:0"),
        (GPU, SEES_NONE, P100, "the framework saw no GPU"),
        ({**GPU, "gpu": "K80"}, SEES_ONE, P100, "K80 was requested, but the card is Tesla P100"),
        ({**GPU, "gpu": "P10"}, SEES_ONE, P100, "P10 was requested"),
        ({**GPU, "gpu": "P100"}, SEES_ONE, P100, "requested, but the card is Tesla P100-PCIE"),
        # The machine has the requested card, but another one was assigned, or may have been.
        (GPU, {**SEES_ONE, "card": K80}, BOTH, "P100 PCIE was requested, but the card is Tesla K"),
        (GPU, SEES_ONE, BOTH, "the card is Tesla K80, Tesla P100-PCIE-16GB"),
        (
            ANY,
            {"card": K80, "framework_cards": ["Tesla T4"]},
            BOTH,
            "card Tesla K80 was assigned, but the framework saw Tesla T4",
        ),
        (GPU, {"framework_cards": ["Tesla T4"]}, P100, "the card is Tesla P100-PCIE-16GB, Tesla T"),
        (
            ANY,
            {"card": K80, **SEES_TWO},
            BOTH,
            "one card was assigned, but the framework saw 2: CUDA:0",
        ),
        (PAIR, {**SEES_ONE, "replicas": 2, "card": TWO_K80}, BOTH, "2 cards were assigned, but"),
        (PAIR, {**SEES_TWO, "card": TWO_K80}, BOTH, "on 2 devices was requested, but it used 1"),
        (
            {**PAIR, "gpu": "K80"},
            {**SEES_TWO, "replicas": 2, "card": {**K80, "further": P100["gpus"]}},
            BOTH,
            "K80 was requested, but the card is Tesla K80, Tesla P100-PCIE-16GB",
        ),
        ({**CPU, "replicas": 2}, SEES_NONE, {}, "on 2 devices was requested, but it used 1"),
    ],
)
def test_a_wrong_device_is_reported(device, measured, hardware, text) -> None:
    (reason,) = device_reasons(device, measured_of(measured), hardware)
    assert reason.code == "wrong_device"
    assert text in reason.text


@pytest.mark.parametrize(
    ("device", "measured", "hardware"),
    [
        (CPU, {"threads": {"asked": 2, "intra_op": 2, "pinned_to": [0, 1]}}, {"gpus": []}),
        (CPU, {**SEES_NONE, "threads": None}, P100),
        (GPU, SEES_ONE, P100),
        ({"kind": "gpu", "threads": None}, SEES_ONE, P100),
        (GPU, {**SEES_ONE, "card": P100["gpus"][0]}, BOTH),
        (ANY, {"card": K80, "framework_cards": ["NVIDIA Tesla K80"]}, BOTH),
        ({**GPU, "gpu": "p100 pcie"}, {"framework_devices": ["cuda:0"]}, P100),
        (PAIR, {**SEES_TWO, "replicas": 2, "card": TWO_K80}, BOTH),
        ({**CPU, "replicas": 2}, {"framework_devices": ["CPU:0", "CPU:1"], "replicas": 2}, {}),
        (CPU, {"threads": {"asked": None, "intra_op": 2}}, {}),
        (CPU, {"threads": {"asked": 2}}, {}),
        (CPU, {}, {}),
    ],
)
def test_the_requested_device_gives_no_reason(device, measured, hardware) -> None:
    assert device_reasons(device, measured_of(measured), hardware) == []
