"""Which certificates an experiment needs, and what makes one anew."""

from __future__ import annotations

from typing import Any

import pytest

from rnnbench.grid.point import GridPoint, name_of
from rnnbench.planning import certificates as room

GPU = [{"key": "device.kind", "in": ["gpu"], "why": "cuDNN runs on NVIDIA GPUs only"}]


def cell(
    rnn: str = "keras", device: str = "cpu_1", skip: str | None = None, **changes: Any
) -> GridPoint:
    choices = {"model": "m", "cell": changes.pop("cell", "lstm"), "rnn": rnn, "device": device}
    choices["build"] = "current"
    overrides = changes.pop("overrides", {})
    seed = changes.pop("seed", 0)
    model = {"name": "m", "recurrent": True, "units": 8, "function": "rnnworker.data:text"}
    model |= {"data": {"prepare": "rnnworker.data:text"}, **changes.pop("model", {})}
    config: dict[str, Any] = {
        "model": model,
        "cell": {"name": choices["cell"]},
        "rnn": {"name": rnn, "implementation": rnn, "requires": GPU if rnn == "cudnn" else []},
        "device": {"name": device, "kind": device.partition("_")[0], "threads": 1},
        "build": {"name": "current", "framework": "keras3_tensorflow"},
        "dataset": {"name": "d", "path": "data/d.npz"},
        "limits": {"train": 5},
        "measure": {},
        "seed": seed,
        "repeat": 0,
        "alias": None,
    }
    for key, value in overrides.items():
        section, _, last = key.partition(".")
        config[section] = {**config[section], last: value}
    config.update(changes)
    return GridPoint(
        name_of(choices, overrides, seed, 0, None), choices, overrides, seed, 0, None, config, skip
    )


def made(*cells: GridPoint, md5: str = "m", lock: str = "l") -> dict[str, room.Certificate]:
    return room.certificates_of(cells, lambda config: md5, lambda build: lock)


def test_one_for_each_model_cell_and_build() -> None:
    found = made(
        cell(), cell("block"), cell("cell", seed=3), cell(device="cpu_2"), cell(cell="gru")
    )
    assert sorted(found) == ["m-gru-current", "m-lstm-current"]
    names = [entry["name"] for entry in found["m-lstm-current"].implementations]
    assert names == ["block", "cell", "keras"]


def test_an_implementation_that_cannot_run_here_is_kept_with_its_reason() -> None:
    why = "cuDNN runs on NVIDIA GPUs only"
    (one,) = made(cell(), cell("cudnn", skip=why)).values()
    assert {e["name"]: e["skip"] for e in one.implementations} == {"keras": None, "cudnn": why}


def test_where_there_is_a_gpu_it_is_made_there() -> None:
    (one,) = made(cell(), cell("cudnn", skip="x"), cell("cudnn", device="gpu_0")).values()
    assert one.config["device"]["kind"] == "gpu"
    assert {e["name"]: e["skip"] for e in one.implementations} == {"keras": None, "cudnn": None}


@pytest.mark.parametrize(
    "other",
    [
        cell(build={"name": "fake", "framework": "fake"}),
        cell(skip="not here"),
    ],
)
def test_none_where_there_is_nothing_to_certify(other: GridPoint) -> None:
    assert made(other) == {}


def test_only_overrides_that_change_the_function_make_another_one() -> None:
    found = made(
        cell(),
        cell(overrides={"model.units": 16}),
        cell(overrides={"model.epochs": 2, "model.batch": 64}),
        cell(overrides={"measure.warmup_steps": 1}),
    )
    assert {key: one.overrides for key, one in found.items()} == {
        "m-lstm-current": {},
        "m-lstm-current-units16": {"model.units": 16},
    }


def test_a_model_without_a_recurrent_layer_is_certified_too() -> None:
    (one,) = made(cell("none", model={"recurrent": False})).values()
    assert [entry["name"] for entry in one.implementations] == ["none"]


def test_each_section_of_options_is_an_implementation_of_its_own() -> None:
    v3 = {"rnn.op": "CudnnRNNV3"}
    (one,) = made(cell("raw"), cell("raw", overrides=v3), cell()).values()
    found = {entry["name"]: entry["rnn"].get("op") for entry in one.implementations}
    assert found == {"keras": None, "raw": None, "raw op=CudnnRNNV3": "CudnnRNNV3"}


def test_other_devices_are_told_with_the_implementations_that_run_there() -> None:
    (one,) = made(
        cell(), cell("block"), cell(device="cpu_2"), cell("block", device="cpu_9", skip="no"),
    ).values()  # fmt: skip
    assert one.device == "cpu_1"
    assert [(two["name"], two["implementations"]) for two in one.devices] == [("cpu_2", ["keras"])]
    assert one.devices[0]["device"]["name"] == "cpu_2"


def test_what_makes_it_anew() -> None:
    def digest(*cells: GridPoint, **pins: str) -> str:
        return made(*cells, **pins)["m-lstm-current"].digest

    first = digest(cell())
    assert digest(cell(), cell(seed=1)) == first
    assert digest(cell(limits={"train": 9})) == first
    assert digest(cell(), cell(device="cpu_2", skip="no such machine")) == first
    others = [
        digest(cell(), cell("block")),
        digest(cell(), cell(device="cpu_2")),
        digest(cell(), cell(overrides={"rnn.x": 1})),
        digest(cell(), md5="other"),
        digest(cell(), lock="other"),
        digest(cell(model={"units": 9})),
    ]
    assert len({first, *others}) == 7
