"""Energy, heat and other processes on the card, from two samples of its state."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import convert

from rnnbench.records.measured import CardUse
from rnnbench.records.store import Place
from rnnbench.report.provenance import raw_configurations
from rnnbench.running import worker
from rnnbench.running.card_use import card_reasons, card_use
from rnnbench.running.verdict import judge
from rnnbench.tables.frame import tidy
from rnnbench.tracking.mapping import facts, metrics
from rnnworker.processors import read_topology
from tests.factory import make_record, measured_of, replace
from tests.report.made_up import measurements
from tests.running.alone import train
from tests.running.test_running_train import planned
from tests.running.test_running_verdict import FALLING
from tests.worker.nvml import RISING, write_nvml
from tests.worker.test_worker_cards import TWO

BEFORE = {
    "t": 100.0, "joules": 1000.0, "watts": 90.0, "sm_mhz": 1980, "memory_mhz": 2619,
    "celsius": 40, "slowed": [], "thermal_s": 1.0, "power_s": 7.0, "ecc": 2,
    "memory_bytes": 100, "others": 0,
}  # fmt: skip
AFTER = {
    **BEFORE, "t": 110.0, "joules": 4000.0, "sm_mhz": 1755, "celsius": 71,
    "slowed": ["SwPowerCap"], "thermal_s": 1.05, "power_s": 9.0, "memory_bytes": 900,
}  # fmt: skip


def turn(before: object, after: object, phase: str = "train") -> dict:
    return {"event": "turn", "phase": phase, "card": [before, after]}


EPOCHS = [replace(epoch, samples=500) for epoch in FALLING]


def test_energy_per_sample_and_the_state_of_the_card() -> None:
    measured = card_use([turn(BEFORE, AFTER), turn(BEFORE, AFTER, "evaluate")], EPOCHS)
    assert measured["joules_per_sample"] == pytest.approx(3000.0 / (500 * len(FALLING)))
    assert measured["card_watts"] == 300.0
    use = measured["card_use"]
    assert use["heat"] == pytest.approx(0.005)
    assert use["power_limit"] == pytest.approx(0.2)
    assert (use["seconds"], use["joules"], use["ecc"], use["others"]) == (10.0, 3000.0, 0, 0)
    assert (use["celsius"], use["memory_bytes"]) == (71, 900)
    assert (use["sm_mhz"], use["memory_mhz"]) == ([1980, 1755], [2619, 2619])
    assert use["slowed"] == ["SwPowerCap"]
    assert list(card_reasons(convert(use, CardUse))) == []


def test_two_cards_are_added_and_the_worse_one_counts() -> None:
    hot = {**AFTER, "joules": 2000.0, "thermal_s": 3.0, "celsius": 88, "sm_mhz": 1200, "ecc": 3}
    pair = turn(
        {**BEFORE, "further": [BEFORE]},
        {**AFTER, "further": [{**hot, "slowed": ["HwThermalSlowdown"]}]},
    )
    measured = card_use([pair], EPOCHS)
    use = measured["card_use"]
    assert (use["joules"], measured["card_watts"]) == (4000.0, 400.0)
    assert (use["heat"], use["ecc"], use["celsius"]) == (pytest.approx(0.2), 1, 88)
    assert use["sm_mhz"] == [1980, 1200]
    assert use["slowed"] == ["HwThermalSlowdown", "SwPowerCap"]
    reasons = card_reasons(convert(use, CardUse))
    assert [reason.code for reason in reasons] == ["card_hot", "card_ecc"]
    # The energy is unknown if one card does not report it.
    silent = turn(
        {**BEFORE, "further": [BEFORE]}, {**AFTER, "further": [{**AFTER, "joules": None}]}
    )
    assert card_use([silent], EPOCHS)["card_watts"] is None


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"event": "turn", "phase": "train"}],
        [turn(None, None)],
        [turn(BEFORE, AFTER), turn(BEFORE, AFTER)],
        [turn(BEFORE, {**AFTER, "t": 100.0})],
    ],
)
def test_without_two_samples_there_are_no_facts(events: list) -> None:
    assert card_use(events, EPOCHS) == {}


def test_values_that_a_card_does_not_report_are_none() -> None:
    nothing = {**dict.fromkeys(BEFORE), "slowed": None}
    measured = card_use([turn({**nothing, "t": 1.0}, {**nothing, "t": 2.0})], EPOCHS)
    assert measured["joules_per_sample"] is None
    assert measured["card_use"]["heat"] is measured["card_use"]["others"] is None
    # A counter that decreased was reset.
    measured = card_use([turn(AFTER, {**BEFORE, "t": 120.0})], EPOCHS)
    assert measured["card_use"]["joules"] is None


@pytest.mark.parametrize(
    ("after", "code", "text"),
    [
        ({"thermal_s": 1.2}, "card_hot", "for 2% of the training"),
        ({"others": 1}, "card_shared", "1 other process used the card"),
        ({"ecc": 5}, "card_ecc", "3 uncorrected errors"),
    ],
)
def test_reasons_that_make_a_run_suspect(after: dict, code: str, text: str) -> None:
    measured = card_use([turn(BEFORE, {**AFTER, **after})], EPOCHS)
    verdict = judge([], FALLING, measured_of(measured))
    assert verdict.status == "suspect"
    (reason,) = verdict.reasons
    assert reason.code == code and text in reason.text and reason.remedy.endswith(".")


def test_energy_is_in_the_tables_the_report_and_mlflow() -> None:
    measured = card_use([turn(BEFORE, AFTER)], EPOCHS)
    card = {"name": "NVIDIA H200", "uuid": "GPU-1"}
    record = make_record(facts={**measured, "card": card, "card_peak_memory_bytes": 5})
    frame = tidy([record])
    assert set(frame["card_watts"]) == {300.0}
    assert set(frame["joules_per_sample"]) == {measured["joules_per_sample"]}
    (raw,) = raw_configurations(measurements([record]))
    assert raw.facts["GPU"] == "NVIDIA H200"
    assert raw.facts["energy"].endswith("J per sample, at 300 W")
    values = {point.key: point.value for point in metrics(record)}
    assert values["card_watts"] == 300.0
    assert values["card_peak_memory_bytes"] == 5.0
    assert "joules_per_sample" in values
    assert facts(record)["measured"]["card_use"]["celsius"] == 71


def test_a_run_on_a_card_from_start_to_record(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the fake framework, fake cards, and nvidia-ml-py on a made-up driver."""
    library = write_nvml(tmp_path / "pynvml.py", processes="[7, 8]", joules=RISING)
    monkeypatch.setattr(worker.workers.machine, "gpus", lambda: TWO)
    monkeypatch.setattr(worker, "nvml", lambda: str(library))
    line = planned("fake-lstm-keras-h100-fake-s0-r0", epoch_seconds=0.05)
    line["config"]["device"] = {"name": "h100", "kind": "gpu", "threads": None, "gpu": "H100"}

    record = train(line, place)
    measured = record.facts
    assert measured["card"]["uuid"] == "GPU-a1"
    assert measured["threads"]["asked"] == min(8, len(read_topology()))
    assert measured["card_use"]["others"] == 1
    assert measured["card_use"]["sm_mhz"] == [1980, 1980]
    assert measured["card_watts"] == pytest.approx(300.0, rel=0.01)
    assert measured["joules_per_sample"] > 0
    assert "card_shared" in [reason.code for reason in record.verdict.reasons]
    assert not [reason for reason in record.verdict.reasons if reason.code == "wrong_device"]
    # The same run on a machine with another model of card only.
    monkeypatch.setattr(worker.workers.machine, "gpus", lambda: TWO[:1])
    other = {**line, "name": "fake-lstm-keras-h100-fake-s0-r1", "repeat": 1}
    record = train(other, place)
    assert record.measured.card is None
