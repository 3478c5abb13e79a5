from __future__ import annotations

import pytest

from rnnbench.records.record import Epoch, Phase, Reason
from rnnbench.running.verdict import VOID_CODES, closure, device_reasons, failure_reason, judge
from rnnbench.running.worker import Outcome


def epoch(number: int, loss: float | None, **changes) -> Epoch:
    return Epoch(number, 10.0 * number, 1.0, 100, 10, **{"loss": loss, **changes})


def train(seconds: float = 10.0, timed: bool = True, **load: float) -> Phase:
    return Phase("train", 100.0, 100.0 + seconds, timed, {"load": load})


FALLING = (epoch(1, 2.0), epoch(2, 1.0))


def codes(phases=(), epochs=FALLING, measured=None, failure=None) -> list[str]:
    return [reason.code for reason in judge(phases, epochs, measured or {}, failure).reasons]


def test_a_good_run_is_clean() -> None:
    threads = {"asked": 2, "intra_op": 2, "inter_op": 2, "pinned_to": [0, 3]}
    load = {"own": 9.9, "busy": 10.0, "foreign": 0.1, "steal": 0.0}
    verdict = judge([train(**load)], FALLING, {"threads": threads, "closure": 0.002})
    assert (verdict.status, verdict.reasons) == ("clean", ())


@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        ((epoch(1, 2.0), epoch(2, None)), "loss_not_finite"),
        ((epoch(1, float("inf")),), "loss_not_finite"),
        ((epoch(1, 2.0), epoch(2, 2.0)), "loss_not_falling"),
        ((epoch(1, 2.0), epoch(2, 1.0), epoch(3, 2.5)), "loss_not_falling"),
        ((), "no_epochs"),
    ],
)
def test_reasons_from_the_losses(epochs: tuple[Epoch, ...], code: str) -> None:
    verdict = judge([], epochs, {})
    assert [reason.code for reason in verdict.reasons] == [code]
    assert verdict.status == ("void" if code in VOID_CODES else "suspect")


def test_the_epoch_whose_loss_is_not_finite_is_named() -> None:
    (reason,) = judge([], (epoch(1, 1.0), epoch(2, 0.5), epoch(3, None)), {}).reasons
    assert "in epoch 3" in reason.text


def test_the_loss_of_a_single_epoch_need_not_fall() -> None:
    assert codes(epochs=(epoch(1, 5.0),)) == []


def test_a_wrong_device_is_void() -> None:
    reason = Reason("wrong_device", "K80 was requested", "run it elsewhere.")
    verdict = judge([], FALLING, {}, device=[reason])
    assert (verdict.status, verdict.reasons) == ("void", (reason,))


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (train(10.0, foreign=0.51), ["foreign_load"]),
        (train(10.0, foreign=0.49), []),
        (train(10.0, steal=0.21), ["steal"]),
        (train(10.0, steal=0.19), []),
        (train(10.0, foreign=1.0, steal=1.0), ["foreign_load", "steal"]),
        # Fewer than five ticks of the kernel's clock are not evidence, however short the phase.
        (train(0.1, foreign=0.04, steal=0.04), []),
        (train(0.1, foreign=0.06), ["foreign_load"]),
        # Load during an untimed phase does not matter.
        (train(10.0, timed=False, foreign=9.0), []),
        (Phase("train", 0.0, 10.0, True, {}), []),
    ],
)
def test_reasons_from_the_load_of_others(phase: Phase, expected: list[str]) -> None:
    assert codes([phase]) == expected


def test_the_share_of_the_load_of_others_is_reported() -> None:
    (reason,) = judge([train(10.0, foreign=4.0)], FALLING, {}).reasons
    assert "40%" in reason.text
    assert "train" in reason.text
    assert "rnnbench retry" in reason.remedy


def test_void_outranks_suspect_and_all_reasons_are_kept() -> None:
    epochs = (epoch(1, 1.0), epoch(2, None))
    verdict = judge([train(10.0, foreign=5.0)], epochs, {"closure": 0.5})
    assert verdict.status == "void"
    reason_codes = [reason.code for reason in verdict.reasons]
    assert reason_codes == ["loss_not_finite", "foreign_load", "closure"]


def test_a_failure_comes_first_and_explains_missing_epochs() -> None:
    failure = Reason("exception", "RuntimeError in phase build: no", "see the log.")
    verdict = judge([], (), {}, failure)
    assert (verdict.status, verdict.reasons) == ("void", (failure,))


def test_every_reason_has_a_remedy() -> None:
    reasons = [
        *judge(
            [train(10.0, foreign=5.0, steal=5.0)],
            (),
            {"kernel": {"found": ["a"], "expected": ["b"]}},
        ).reasons,
        *judge([], (epoch(1, 1.0), epoch(2, 2.0)), {"closure": 1.0}).reasons,
        *judge([], (epoch(1, None),), {}).reasons,
    ]
    assert len({reason.code for reason in reasons}) == 7
    assert all(reason.text and reason.remedy.endswith(".") for reason in reasons)


ERROR = {"event": "error", "phase": "train", "type": "RuntimeError", "message": "no"}


@pytest.mark.parametrize(
    ("events", "exit_code", "over_limit", "code", "text"),
    [
        ([], 0, "train", "over_limit", "phase train exceeded its time limit"),
        ([ERROR], -9, "train", "over_limit", "phase train exceeded its time limit"),
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
    assert reason.code == code
    assert code in VOID_CODES
    assert text in reason.text


def test_a_worker_that_finished_has_no_failure() -> None:
    assert failure_reason(Outcome([{"event": "finished"}], phase="end")) is None


def test_the_remedy_of_over_limit_names_the_limit() -> None:
    reason = failure_reason(Outcome(exit_code=-9, over_limit="import", phase="import"))
    assert reason is not None
    assert "limits.import" in reason.remedy


def closed(*seconds: float, whole: float = 6.0) -> float | None:
    """Closure of epochs of these `seconds`, each followed by 0.5 s of validation, with 0.3 s of
    set-up and 0.2 s of tear-down."""
    details = {"set_up": 0.3, "tear_down": 0.2, "second_clock": whole}
    phase = Phase("train", 100.0, 100.0 + whole, True, details)
    epochs = [Epoch(n, 0.0, each, 10, 1, val_seconds=0.5) for n, each in enumerate(seconds, 1)]
    return closure([phase], epochs)


def test_closure_is_the_unexplained_share_of_the_whole() -> None:
    assert closed(2.0, 2.0, whole=5.5) == pytest.approx(0.0)
    assert closed(2.0, 2.0, whole=11.0) == pytest.approx(0.5)


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
    assert closed(2.0, 2.0, 2.0, whole=8.0) == pytest.approx(0.0)
    assert codes(measured={"closure": closed(*seconds, whole=whole)}) == ["closure"]


def test_without_a_whole_there_is_no_closure() -> None:
    assert closure([], FALLING) is None
    assert closure([train()], FALLING) is None  # as reported by older workers
    assert closed() is None
    assert closed(2.0, whole=0.0) is None


WEIGHTS = ("weights_sha256", "started_weights_sha256")
MISNAMED = {"kernel": {"found": ["while"], "expected": ["cudnn"]}}
NOT_SEEN = {"kernel": {"found": [], "expected": ["while"]}}


@pytest.mark.parametrize(
    ("measured", "status", "expected"),
    [
        ({"closure": None}, "clean", []),
        ({"closure": 0.01}, "clean", []),
        ({"closure": -0.01}, "clean", []),
        ({"closure": 0.011}, "suspect", ["closure"]),
        ({"closure": -0.011}, "suspect", ["closure"]),
        ({"kernel": None}, "clean", []),
        ({"kernel": {"found": ["while"], "expected": ["while"]}}, "clean", []),
        ({"kernel": {"found": ["while"], "expected": None}}, "clean", []),
        ({"kernel": {"found": [], "expected": None}}, "clean", []),
        ({"kernel": {"found": ["while", "cudnn"], "expected": ["cudnn", "while"]}}, "clean", []),
        (MISNAMED, "void", ["wrong_kernel"]),
        ({"kernel": {"found": ["cudnn", "while"], "expected": ["cudnn"]}}, "void",
         ["wrong_kernel"]),
        (NOT_SEEN, "suspect", ["not_attested"]),
        (dict(zip(WEIGHTS, "aa", strict=True)), "clean", []),
        (dict(zip(WEIGHTS, "ab", strict=True)), "void", ["warm_start"]),
        (dict(zip(WEIGHTS, ("a", None), strict=True)), "clean", []),
        (dict(zip(WEIGHTS, (None, "b"), strict=True)), "clean", []),
    ],
)  # fmt: skip
def test_reasons_from_what_was_measured(measured: dict, status: str, expected: list[str]) -> None:
    verdict = judge([], FALLING, measured)
    assert ([reason.code for reason in verdict.reasons], verdict.status) == (expected, status)


@pytest.mark.parametrize(
    ("measured", "text"),
    [(MISNAMED, "ran while instead of cudnn"), (NOT_SEEN, "so while is not attested")],
)
def test_the_kernels_are_named(measured: dict, text: str) -> None:
    (reason,) = judge([], FALLING, measured).reasons
    assert text in reason.text


CARD = {"name": "NVIDIA H200"}
FED = {"card": CARD, "threads": {"asked": 8, "pinned_to": list(range(8))}}


@pytest.mark.parametrize(
    ("foreign", "steal", "measured", "expected"),
    [
        # 5 % of the time of the cores that feed the card: 8 cores, 10 seconds.
        (3.9, 1.5, FED, []),
        (4.1, 0.0, FED, ["foreign_load"]),
        (0.0, 1.7, FED, ["steal"]),
        (0.6, 0.0, {"threads": FED["threads"]}, ["foreign_load"]),
        (0.6, 0.0, {"card": CARD}, ["foreign_load"]),
    ],
)
def test_load_on_the_cores_that_feed_a_card(foreign, steal, measured, expected) -> None:
    assert codes([train(10.0, foreign=foreign, steal=steal)], measured=measured) == expected


def test_a_run_with_unknown_load_of_others_is_suspect() -> None:
    unknown = train(10.0, own=9.0, major_faults=0, switched_out=0)
    verdict = judge([unknown, unknown], FALLING, {})
    assert [reason.code for reason in verdict.reasons] == ["load_unknown"]
    assert verdict.status == "suspect"
    verdict = judge([unknown], FALLING, {}, disturbed=[False, False])
    assert [reason.code for reason in verdict.reasons] == ["load_unknown"]
    assert codes([train(10.0, timed=False, own=9.0)]) == []


@pytest.mark.parametrize(("bad", "expected"), [(5, []), (6, ["foreign_load"])])
def test_more_than_half_of_the_turns_must_be_disturbed(bad: int, expected: list[str]) -> None:
    disturbed = [True] * bad + [False] * (10 - bad)
    verdict = judge([train(10.0, own=9.0, foreign=0.0)], FALLING, {}, disturbed=disturbed)
    assert [reason.code for reason in verdict.reasons] == expected


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
        (ANY, {"card": K80, "framework_cards": ["Tesla T4"]}, BOTH, "framework saw Tesla T4"),
        (GPU, {"framework_cards": ["Tesla T4"]}, P100, "the card is Tesla P100-PCIE-16GB, Tesla T"),
        (ANY, {"card": K80, **SEES_TWO}, BOTH, "but the framework saw 2: CUDA:0, CUDA:1"),
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
    (reason,) = device_reasons(device, measured, hardware)
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
    assert device_reasons(device, measured, hardware) == []
