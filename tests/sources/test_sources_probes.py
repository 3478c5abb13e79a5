"""Probes: read whole, or refused in one line that names the file."""

from __future__ import annotations

import json

import pytest

from rnnbench.errors import RecordError
from rnnbench.sources.probes import read_probes
from tests.factory import make_probe

HALF = make_probe()["models"][0]


def test_what_was_written_is_read_and_a_failed_probe_too(tmp_path):
    assert read_probes(tmp_path / "none") == []
    failed = {name: make_probe()[name] for name in ("schema", "key", "device", "build", "machine")}
    for name, probe in (("a", make_probe()), ("b", {**failed, "error": "it crashed"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(probe))
    whole, other = read_probes(tmp_path)
    assert whole == make_probe()
    assert other["error"] == "it crashed" and other["peak_gflops"] is None
    assert (other["large"], other["models"], other["bandwidth"]) == ([], [], None)


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"key": None}, {"peak_gflops": 0}, {"peak_gb_per_s": "x"}, {"large": {}},
     {"large": [{"size": 8, "gflops": [-1.0]}]}, {"bandwidth": {"bytes": 8}}, {"models": [1]},
     {"models": [{**HALF, "config": None}]}, {"models": [{**HALF, "products": [{"m": 1}]}]},
     {"models": [{**HALF, "flops_per_step": 3}]}, {"models": [{**HALF, "timesteps": "8"}]}],
)  # fmt: skip
def test_a_broken_probe_is_one_line(tmp_path, change):
    (tmp_path / "p.json").write_text(json.dumps({**make_probe(), **change}))
    with pytest.raises(RecordError, match=r"p\.json") as caught:
        read_probes(tmp_path)
    assert "\n" not in str(caught.value)
