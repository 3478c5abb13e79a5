"""Selecting a run's GPU from the output of nvidia-smi (the format is that of 570), with one, two or
eight GPUs; and reading the state of a GPU through nvidia-ml-py with a made-up driver. How
nvidia-smi is called is checked in `test_worker_machine`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from rnnworker import cards
from tests.conftest import ROOT
from tests.worker.nvml import write_nvml

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
    ("wanted", "replicas", "machine", "variable", "numbers"),
    [
        (None, 1, TWO, None, [0]),
        ("H100", 1, TWO, None, [1]),
        ("H100", 1, TWO, "0", []),
        ("H100 PCIe", 1, TWO, None, [0]),
        ("H200", 1, EIGHT, None, []),
        # With two replicas, cards of one model.
        (None, 2, EIGHT, None, [0, 1]),
        (None, 2, EIGHT, "7,2", [7, 2]),
        (None, 2, machine_of(PCIE, SXM, PCIE), None, [0, 2]),
        (None, 2, machine_of(PCIE, SXM, SXM), None, [1, 2]),
        ("H100", 2, machine_of(PCIE, PCIE, SXM, SXM), None, [2, 3]),
        (None, 2, ONE, None, []),
        (None, 2, TWO, None, []),
        (None, 2, EIGHT, "3", []),
    ],
)
def test_a_run_gets_cards_of_the_requested_model(
    wanted, replicas: int, machine, variable, numbers
) -> None:
    environment = {} if variable is None else {cards.VISIBLE: variable}
    device = {"kind": "gpu", "gpu": wanted, "replicas": replicas}
    card, uuids = cards.select_card(device, machine, environment), [f"GPU-a{n}" for n in numbers]
    assert [each["uuid"] for each in cards.all_cards(card)] == uuids
    only = {cards.VISIBLE: ",".join(uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert cards.variables(card) == (only if uuids else {})
    if len(numbers) > 1:
        assert cards.query_contexts(card) is None, "such a run is alone on its cards"


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


def test_unknown_values_are_omitted() -> None:
    (card,) = cards.parse_cards("Tesla K80, 470.1, 11441, [N/A], [Not Supported], GPU-1, 0:1:0.0\n")
    assert card.keys() == set(cards.FIELDS) - {"power_limit_w", "max_clock_mhz"}
    assert card["uuid"] == "GPU-1"


STATE = {
    "joules": 5.0,
    "watts": 300.5,
    "sm_mhz": 1980,
    "memory_mhz": 2619,
    "celsius": 45,
    "slowed": ["SwPowerCap", "HwThermalSlowdown"],
    "thermal_s": 0.0,
    "power_s": 2.5,
    "ecc": None,
    "memory_bytes": 2**30,
}


H200 = {"name": "NVIDIA H200", "uuid": "GPU-a1"}


@pytest.fixture
def reader(tmp_path: Path):
    """Makes the function that reads a card, with a driver that fails so many times and lists these
    processes."""

    def make(failures: int = 0, processes: str = "[]", file: str = "pynvml.py", **card):
        write_nvml(tmp_path / "pynvml.py", failures, processes)
        return cards.card_reader({"card": {**H200, **card}, "nvml": str(tmp_path / file)})

    return make


@pytest.mark.parametrize("failures", [0, 1])
@pytest.mark.parametrize(("processes", "others"), [("[]", 0), ("[7]", 0), ("[7, 1, 2]", 2)])
def test_state_of_a_card(reader, failures: int, processes: str, others: int) -> None:
    """A driver that fails once is asked again."""
    state = reader(failures, processes)()
    assert state.pop("t") > 0
    assert state == {**STATE, "others": others}


def test_the_state_of_further_cards_is_read_too(reader) -> None:
    state = reader(further=[{**H200, "uuid": "GPU-a2"}])()
    (second,) = state["further"]
    assert (state["joules"], second["joules"]) == (5.0, 5.0)
    assert set(second) == set(state) - {"further"}


@pytest.mark.parametrize(
    "fault",
    [
        {"failures": 9},
        {"file": "absent.py"},
        {"uuid": "GPU-of another"},
        {"further": [{**H200, "uuid": "GPU-of another"}]},
    ],
    ids=["driver", "library", "card", "further card"],
)
def test_a_card_that_cannot_be_read_is_logged(reader, fault: dict, capsys) -> None:
    assert reader(**fault)() is None
    assert "The state of the GPU is not read: " in capsys.readouterr().err


def test_nothing_is_read_on_a_cpu(capsys) -> None:
    assert cards.card_reader({"card": None, "nvml": None})() is cards.card_reader({})() is None
    assert capsys.readouterr().err == ""


def test_every_queried_name_is_in_the_real_library(reader) -> None:
    card = cards.CardState.__new__(cards.CardState)
    card.library = pynvml
    assert card._reasons(0xFF) == list(cards.REASONS)
    unknown = [name for name, value in reader()().items() if value is None]
    assert unknown == ["ecc"], "which the made-up driver does not support"


READ = """
import sys
from rnnworker import cards
assert "pynvml" not in sys.modules
print(cards.card_reader({"card": {"uuid": "GPU-a1"}, "nvml": sys.argv[1]})())
"""


def test_the_real_library_is_loaded_as_a_worker_does_it() -> None:
    """On a machine without a driver, or with cards of its own: the answer is NVML's."""
    command = [sys.executable, "-c", READ, pynvml.__file__]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert result.stdout == "None\n"
    reason = result.stderr.removeprefix("The state of the GPU is not read: ").strip()
    assert reason in pynvml.NVMLError._errcode_to_string.values()
