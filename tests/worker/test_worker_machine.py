from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rnnworker import cards, machine
from tests.worker.building import write

FACTS = {
    "cpu": "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz",
    "cores": 28,
    "architecture": "x86_64",
    "memory_bytes": 256 * 2**30,
    "gpu_models": ["Tesla P100-PCIE-16GB", "Tesla P100-PCIE-16GB"],
}
VIRTUAL = {
    **FACTS,
    "cpu": "AMD EPYC",
    "virtual": True,
    "processor": "AuthenticAMD 25 17",
    "flags": ["avx2", "fma", "avx512f"],
}


@pytest.mark.parametrize(
    ("change", "head"),
    [
        ({}, "intel_xeon_e5-28c-tesla_p100_pcie_16gb-"),
        ({"gpu_models": []}, "intel_xeon_e5-28c-"),
        ({"cpu": "AMD EPYC 7B13 64-Core Processor", "gpu_models": None}, "amd_epyc_7b13-28c-"),
        ({"cpu": "aarch64", "gpu_models": []}, "aarch64-28c-"),
        ({"cpu": "处理器", "gpu_models": []}, "cpu-28c-"),
    ],
)
def test_a_key_is_readable_and_a_file_name(change: dict, head: str) -> None:
    key = machine.key({**FACTS, **change})
    assert key.startswith(head)
    assert re.fullmatch(r"[a-z0-9_]+(-[a-z0-9_]+)+-[0-9a-f]{6}", key)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"boot": "another", "kernel": "7.0", "governor": "powersave", "available_cores": 1}, True),
        # The kernel keeps a little more or less memory for itself from boot to boot.
        ({"memory_bytes": FACTS["memory_bytes"] - 50_000_000}, True),
        ({"cpu": "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.70GHz"}, False),
        ({"cores": 14}, False),
        ({"memory_bytes": 128 * 2**30}, False),
        ({"gpu_models": FACTS["gpu_models"][:1]}, False),
        ({"gpu_models": []}, False),
        ({"architecture": "arm64"}, False),
    ],
)
def test_a_key_is_that_of_the_machine_and_not_of_its_boot(change: dict, same: bool) -> None:
    assert (machine.key({**FACTS, **change}) == machine.key(FACTS)) is same


@pytest.mark.parametrize(
    "change", [{"processor": "AuthenticAMD 25 1"}, {"flags": ["avx2", "fma"]}], ids=str
)
def test_a_virtual_machine_on_another_processor_is_another_machine(change: dict) -> None:
    assert machine.key({**VIRTUAL, **change}) != machine.key(VIRTUAL)
    assert machine.key({**VIRTUAL, **change, "virtual": False}) == machine.key(
        {**VIRTUAL, "virtual": False}
    ), "there, the name says it"


def test_identical_machines_are_distinguished_by_an_id_that_is_not_shown(monkeypatch) -> None:
    ids = {"1": "0123456789abcdef", "2": "fedcba9876543210"}
    keys = []
    for identity in ids.values():
        monkeypatch.setattr(machine, "text", lambda path, identity=identity: identity)
        keys.append(machine.key(FACTS))
    assert keys[0] != keys[1]
    assert not any(identity[:6] in key for identity in ids.values() for key in keys)


def test_this_machine() -> None:
    facts = machine.fingerprint()
    assert facts["machine"] == machine.fingerprint()["machine"] == machine.key(facts)
    assert facts["available_cores"] >= 1
    assert facts["memory_bytes"] > 2**28
    assert facts["boot"] == machine.boot()
    identity = machine.text("/etc/machine-id")
    assert json.dumps(facts)
    assert not identity or identity not in json.dumps(facts)


# The driver's format, one file per GPU.
INFORMATION = "Model: \t\t {}\nIRQ:   \t\t 38\nGPU UUID: \t GPU-1\nBus Type: \t PCIe\n"
LINE = "Tesla P100-PCIE-16GB, 570.1, 16384, 250.00, 1328, GPU-1, 00000000:3B:00.0"
# Vendor and class of a display of Intel, a card of NVIDIA, and its USB port.
PCI_DEVICES = (("8086", "030000"), ("10de", "030200"), ("10de", "0c0330"))
FAILS_TWICE = """#!/bin/sh
for call in first second; do
    if mkdir {}/$call 2>/dev/null; then echo 'Driver/library version mismatch'; exit 18; fi
done
echo '{}'
echo '{}'
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two P100, whose nvidia-smi fails on its first two calls."""
    gpus = [f"driver/gpus/{number}/information" for number in ("0000:3b:00.0", "0000:af:00.0")]
    write(tmp_path, dict.fromkeys(gpus, INFORMATION.format("Tesla P100-PCIE-16GB")))
    write(tmp_path, {"nvidia-smi": FAILS_TWICE.format(tmp_path, LINE, LINE)})
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, folder in (("DRIVER", "driver"), ("DEVICES", "dev"), ("PCI", "pci")):
        monkeypatch.setattr(machine, name, str(tmp_path / folder))
    return tmp_path


def test_a_failing_nvidia_smi_does_not_change_the_key(driver: Path, monkeypatch) -> None:
    """It is called again once, and fails twice in the first of two fingerprints."""
    first, second = machine.fingerprint(), machine.fingerprint()
    names = [[gpu["name"] for gpu in facts["gpus"]] for facts in (first, second)]
    assert names == [["Tesla P100-PCIE-16GB"] * 2] * 2
    assert ["driver" in facts["gpus"][0] for facts in (first, second)] == [False, True]
    monkeypatch.setenv("PATH", str(driver / "absent"))
    assert machine.gpus() == first["gpus"], "without nvidia-smi"
    assert first["machine"] == second["machine"]
    assert "-tesla_p100_pcie_16gb-" in first["machine"]
    assert [gpu["uuid"] for gpu in first["gpus"]] == ["GPU-1"] * 2
    assert second["gpus"] == [dict(zip(cards.FIELDS, LINE.split(", "), strict=True))] * 2


def test_the_key_equals_that_from_names_of_nvidia_smi(driver: Path, monkeypatch) -> None:
    """Folders of records made by earlier versions keep their names."""
    facts = {**FACTS, "gpu_models": machine.gpu_models()}
    monkeypatch.setattr(machine, "text", lambda path: "0123456789abcdef")
    assert machine.key(facts) == "intel_xeon_e5-28c-tesla_p100_pcie_16gb-5bb96e"
    assert machine.key({**facts, "gpu_models": []}) == "intel_xeon_e5-28c-1048b9"


def test_models_if_the_driver_lists_none_or_is_absent(driver: Path, monkeypatch) -> None:
    with monkeypatch.context() as absent:
        absent.setattr(machine, "DRIVER", str(driver / "absent"))
        assert machine.gpu_models() == machine.gpus() == []
    write(driver, {"driver/gpus/0000:3b:00.0/information": INFORMATION.format("Unknown")})
    write(driver / "dev", dict.fromkeys(("nvidia0", "nvidia1", "nvidiactl"), ""))
    assert machine.gpu_models() == ["nvidia gpu", "nvidia gpu"]
    for number, (vendor, kind) in enumerate(PCI_DEVICES):
        files = {"vendor": f"0x{vendor}\n", "class": f"0x{kind}\n", "device": "0x15f8\n"}
        write(driver / "pci" / str(number), files)
    assert machine.gpu_models() == ["nvidia 15f8"]


def test_the_processor_from_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = (
        "processor : {}\nvendor_id : Maker\ncpu family : 25\nmodel : 17\nmodel name : A CPU\n"
        "physical id : {}\nflags : fpu avx avx2 hypervisor\n"
    )
    text = "\n".join(entry.format(number, number // 2) for number in range(4))
    monkeypatch.setattr(machine, "text", lambda path: text)
    assert machine.processor_facts() == {
        "name": "A CPU", "flags": ["avx", "avx2"], "virtual": True, "sockets": 2,
        "processor": "Maker 25 17",
    }  # fmt: skip


def test_two_generations_of_arm_processors_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel reports a Graviton2 and a Graviton3."""
    names = []
    for part in ("0xd0c", "0xd40"):
        text = f"processor : 0\nFeatures : fp asimd\nCPU implementer : 0x41\nCPU part : {part}\n"
        monkeypatch.setattr(machine, "text", lambda path, text=text: text)
        names.append(machine.processor_facts()["name"])
    assert names == ["ARM 0x41 0xd0c", "ARM 0x41 0xd40"]
