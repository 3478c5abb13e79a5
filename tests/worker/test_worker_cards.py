"""Selecting a run's GPU from the output of nvidia-smi: with one, two or eight GPUs, and with a
driver that denies queries or fails once. The format is that of nvidia-smi 570."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnworker import cards

LINE = "{}, 570.86, 81559, 700.00, 1980, GPU-{}, 00000000:{:02X}:00.0\n"
SXM, PCIE = "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"
A100 = "NVIDIA A100-SXM4-40GB"


def machine_of(*models: str) -> list[dict]:
    text = "".join(LINE.format(model, f"a{n}", 16 + n) for n, model in enumerate(models))
    return cards.parse_cards(text)


ONE, TWO, EIGHT = machine_of(SXM), machine_of(PCIE, SXM), machine_of(*[SXM] * 8)


@pytest.mark.parametrize(
    ("machine", "variable", "uuids"),
    [
        (ONE, None, ["GPU-a0"]),
        (ONE, "", []),
        (ONE, "-1", []),
        (ONE, "1", []),
        (TWO, None, ["GPU-a0", "GPU-a1"]),
        (TWO, "1", ["GPU-a1"]),
        (TWO, "1, 0", ["GPU-a1", "GPU-a0"]),
        (TWO, "GPU-a1", ["GPU-a1"]),
        (TWO, "GPU-a", []),  # ambiguous
        (EIGHT, "7,2", ["GPU-a7", "GPU-a2"]),
        (EIGHT, "3,-1,4", ["GPU-a3"]),
        (EIGHT, "3,8,4", ["GPU-a3"]),
        (EIGHT, None, [f"GPU-a{n}" for n in range(8)]),
    ],
)
def test_visible_devices(machine: list[dict], variable: str | None, uuids) -> None:
    assert [device["uuid"] for device in cards.visible(machine, variable)] == uuids


@pytest.mark.parametrize(
    ("wanted", "machine", "variable", "uuid"),
    [
        (None, TWO, None, "GPU-a0"),
        ("H100", TWO, None, "GPU-a1"),
        ("H100", TWO, "0", None),
        ("H100 PCIe", TWO, None, "GPU-a0"),
        ("H200", EIGHT, None, None),
    ],
)
def test_the_card_of_a_run_is_of_the_requested_model(wanted, machine, variable, uuid) -> None:
    environment = {} if variable is None else {cards.VISIBLE: variable}
    card = cards.select_card({"kind": "gpu", "gpu": wanted}, machine, environment)
    assert (card and card["uuid"]) == uuid
    only = {cards.VISIBLE: uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if uuid else {}
    assert cards.variables(card) == only


@pytest.mark.parametrize(
    ("wanted", "name", "same"),
    [
        ("RTX 2070", "NVIDIA GeForce RTX 2070", True),
        ("RTX 2070", "NVIDIA GeForce RTX 2070 SUPER", False),
        ("RTX 2070", "NVIDIA GeForce RTX 2070 with Max-Q Design", False),
        ("H100", SXM, True),
        ("H100", PCIE, False),
        ("H100", "NVIDIA H100 NVL", False),
        ("H100 NVL", "NVIDIA H100 NVL", True),
        ("H200", "NVIDIA H200 NVL", False),
        ("P100 PCIE", "Tesla P100-PCIE-16GB", True),
        ("P100 PCIE 12GB", "Tesla P100-PCIE-16GB", False),
        ("P100 PCIE", "Tesla P100-SXM2-16GB", False),
        ("P100 PCIE", "Quadro P1000", False),
        ("V100 SXM2", "Tesla V100S-PCIE-32GB", False),
        ("K80", "Tesla K80", True),
        ("T4", "Tesla T4", True),
    ],
)
def test_models_are_compared_exactly(wanted: str, name: str, same: bool) -> None:
    assert cards.is_model(wanted, name) is same


SCRIPT = """#!/bin/sh
case "$1" in
*) if [ -e {0}/broken ]; then rm {0}/broken; exit 9; fi; cat {0}/cards ;;
esac
"""
REFUSED = "#!/bin/sh\necho 'Failed to initialize NVML: Insufficient Permissions'\nexit 4\n"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "nvidia-smi"
    program.write_text(SCRIPT.format(tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "cards").write_text(LINE.format(A100, "a0", 16) + LINE.format(A100, "a1", 17))
    return program


def test_cards_from_nvidia_smi(smi: Path) -> None:
    assert cards.query_cards() == machine_of(A100, A100)


def test_a_driver_that_fails_once_is_queried_again(smi: Path) -> None:
    (smi.parent / "broken").touch()
    assert cards.query_cards() == machine_of(A100, A100)
    assert not (smi.parent / "broken").exists()


def test_a_driver_that_denies_queries_gives_none(smi: Path) -> None:
    smi.write_text(REFUSED)
    assert cards.query_cards() is None


def test_unknown_values_are_omitted() -> None:
    (card,) = cards.parse_cards("Tesla K80, 470.1, 11441, [N/A], [Not Supported], GPU-1, 0:1:0.0\n")
    assert "power_limit_w" not in card
    assert "max_clock_mhz" not in card
    assert card["uuid"] == "GPU-1"


@pytest.mark.parametrize(
    ("machine", "variable", "uuids"),
    [
        (EIGHT, None, ["GPU-a0", "GPU-a1"]),
        (EIGHT, "7,2", ["GPU-a7", "GPU-a2"]),
        (machine_of(PCIE, SXM, PCIE), None, ["GPU-a0", "GPU-a2"]),
        (machine_of(PCIE, SXM, SXM), None, ["GPU-a1", "GPU-a2"]),
        (ONE, None, []),
        (TWO, None, []),  # two models
        (EIGHT, "3", []),
    ],
)
def test_replicas_get_cards_of_one_model(machine: list[dict], variable, uuids) -> None:
    environment = {} if variable is None else {cards.VISIBLE: variable}
    card = cards.select_card({"kind": "gpu", "replicas": 2}, machine, environment)
    assert [each["uuid"] for each in cards.all_cards(card)] == uuids
    assert cards.variables(card).get(cards.VISIBLE, "") == ",".join(uuids)
    assert cards.query_contexts(card) is None  # such a run is alone on its cards


def test_replicas_get_cards_of_the_requested_model() -> None:
    machine = machine_of(PCIE, PCIE, SXM, SXM)
    card = cards.select_card({"gpu": "H100", "replicas": 2}, machine, {})
    assert [each["uuid"] for each in cards.all_cards(card)] == ["GPU-a2", "GPU-a3"]
