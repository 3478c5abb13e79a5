"""Replicas on two logical devices of the CPU: the steps that they apply are those of the whole
batch, and a wrong split is noticed. See also `test_worker_timed`, which trains whole runs."""

from __future__ import annotations

import json

import numpy
import pytest

from rnnworker import frameworks
from rnnworker.frameworks import replicas
from tests.worker.building import answer_of
from tests.worker.test_worker_timed import configured, write_digits

SCRIPT = """
import json, sys
from rnnworker import canonical_weights, certify, frameworks
from rnnworker.frameworks import replicas

job = json.load(open(sys.argv[1]))
model = dict(job["config"]["model"], optimizer=certify.OPTIMIZER)
session = frameworks.open_session(dict(job["config"], model=model, certifying=True), 1)
session.load_data(job["dataset"])
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
batches = list(certify.first_batches(session.arrays, session.config, 2))
results = {
    "facts": session.device_facts(),
    "kernels": session.attest()["found"],
    "whole": certify.differences_of(session, batches),
}
split = replicas.parts_of
# Each replica gets the first half of each batch.
replicas.parts_of = lambda *arguments: [part for part in split(*arguments)[::2] for _ in range(2)]
results["half"] = certify.differences_of(session, batches)
print(json.dumps(results))
"""


@pytest.mark.parametrize("build", ["tf_2_21", "tf_2_15"])
def test_the_applied_steps_are_those_of_the_whole_batch(build, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp(build)
    write_digits(folder / "digits.npz")
    config = configured(f"{build} replicas", folder)
    job = {"config": config, "dataset": str(folder / "digits.npz")}
    (folder / "job.json").write_text(json.dumps(job))
    results = answer_of(build, SCRIPT, folder / "job.json", temporary=tmp_path_factory)
    devices = results["facts"]["framework_devices"]
    assert (results["facts"]["replicas"], len(devices)) == (2, 2)
    assert results["kernels"] == ["while"]
    assert len(results["whole"]) == 2 and max(results["whole"]) <= 1e-4
    assert min(results["half"]) > 1e-4


def test_each_replica_gets_an_equal_part_of_each_batch() -> None:
    parts = replicas.parts_of([numpy.arange(10), numpy.arange(10, 20)], 4, 2)
    expected = [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9], [10, 11], [12, 13]]
    assert [list(part) for part in parts][:8] == expected
    with pytest.raises(ValueError, match="equal division"):
        replicas.parts_of([numpy.arange(11)], 4, 2)


def test_the_error_for_an_uneven_last_batch_names_the_fix() -> None:
    replicas.check_sizes({"train": 44, "val": 20}, 16, 2)
    with pytest.raises(ValueError, match=r"a batch of 5 samples of val .* model.val_samples \(now"):
        replicas.check_sizes({"train": 44, "val": 21}, 16, 2)


def test_a_framework_without_replicas_is_refused() -> None:
    config = {"build": {"framework": "keras3_torch"}, "device": {"kind": "cpu", "replicas": 2}}
    with pytest.raises(ValueError, match="keras3_torch trains on one device"):
        frameworks.open_session(config, 1)
