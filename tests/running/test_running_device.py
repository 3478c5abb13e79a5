from __future__ import annotations

import pytest

from rnnbench.running.verdict import device_reasons

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
