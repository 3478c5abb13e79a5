"""Probes are read completely or rejected with one line that names the file."""

from __future__ import annotations

import json

import msgspec
import pytest

from rnnbench.sources.probes import read_probes
from tests.factory import make_probe

MODEL = make_probe()["models"][0]


def test_probes_are_read_including_failed_ones(tmp_path):
    assert read_probes([tmp_path / "nonexistent"]) == ([], [])
    failed = {name: make_probe()[name] for name in ("schema", "key", "device", "build", "machine")}
    for name, probe in (("a", make_probe()), ("b", {**failed, "error": "it crashed"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(probe))
    (successful, failed), _ = read_probes([tmp_path])
    assert msgspec.to_builtins(successful) == make_probe()
    assert failed.error == "it crashed" and failed.peak_gflops is None
    assert (failed.large, failed.models) == ([], [])


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"key": None}, {"peak_gflops": 0}, {"large": {}},
     {"large": [{"size": 8, "gflops": [-1.0]}]}, {"models": [1]},
     {"models": [{**MODEL, "config": None}]},
     {"models": [{**MODEL, "flops_per_step": 3}]}, {"models": [{**MODEL, "timesteps": "8"}]}],
)  # fmt: skip
def test_invalid_probe_is_a_one_line_error(tmp_path, change):
    (tmp_path / "p.json").write_text(json.dumps({**make_probe(), **change}))
    probes, (fault,) = read_probes([tmp_path])
    assert probes == [] and "p.json" in str(fault) and "\n" not in str(fault)
