"""What ran is what was certified: an implementation that goes wrong only in a certain batch, in
evaluation or on one device is refused there, with that reason."""

from __future__ import annotations

import itertools
import json
import sys

import pytest

from rnnbench.grid.point import GridPoint
from rnnbench.planning.plan import certificates_of
from rnnbench.records.overrides import NONE, Overrides
from rnnbench.running.certificates import assembled_certificate
from rnnbench.running.worker import Outcome
from rnnbench.sources.certificates import certificate_of
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.outcome import Equality
from rnnworker.workers import certificate_jobs
from tests.factory import SAMPLES, TEST_SAMPLES, make_record
from tests.worker.building import ALL_CERTIFICATES, answer, write_digits

KERNEL = """
from rnnworker.recurrent.cells import from_canonical, to_canonical


def make(keras, cell, units, options):
    import tensorflow as tf

    class Mine(keras.layers.LSTM):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            outputs = super().call(sequences, initial_state, mask, training)
            rows, threads = tf.shape(outputs)[0], tf.config.threading
            numbers = tf.range(rows)[:, None]
            wrong = {condition}
            return tf.where(wrong, tf.zeros_like(outputs), outputs)

    return Mine(units, use_cudnn=False, **options)
"""
# Implementation → the samples that it gets wrong, and how that is told; batches of 32 and 128 run.
CONDITIONS = {
    "right": ("numbers < 0", None),
    "batch_128": ("(numbers >= 0) & (rows == 128)", "at batch 128 with training="),
    "last_batch": ("(numbers >= 0) & (rows == 30)", "at batch 30 with training=True"),
    "evaluation": ("(numbers >= 0) & (not training)", "with training=False"),
    "last_evaluation": ("(numbers >= 0) & (rows == 103)", "at batch 103 with training=False"),
    "two_threads": ("(numbers >= 0) & (threads.get_intra_op_parallelism_threads() == 2)",
                    "on cpu_2"),
}  # fmt: skip
SMALL = {"model.units": 8}
LARGE_BATCH = {**SMALL, "model.batch": 128}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certified_for")
    write_digits(folder / "digits.npz", SAMPLES, TEST_SAMPLES)
    runs = [make_record(overrides=overrides).run for overrides in (SMALL, LARGE_BATCH)]
    points = []
    for name, (condition, _) in CONDITIONS.items():
        (folder / f"{name}.py").write_text(KERNEL.format(condition=condition))
        rnn = {"name": name, "implementation": str(folder / f"{name}.py"), "options": {}}
        for run, number in itertools.product(runs, (1, 2)):
            device = {"name": f"cpu_{number}", "kind": "cpu", "threads": number}
            config = {**run.config, "rnn": rnn, "device": device}
            choices = {**run.choices, "rnn": name, "device": device["name"]}
            points.append(GridPoint(name, choices, run.overrides, 0, 0, None, config))
    (planned,) = certificates_of(points, lambda config: None, lambda build: None).values()
    outcomes = {}
    for job in certificate_jobs(planned.as_dict()):
        threads = job["config"]["device"]["threads"]
        job.update(threads=threads, dataset=str(folder / "digits.npz"))
        arguments = (ALL_CERTIFICATES, json.dumps([job]))
        (reported,) = answer(sys.executable, *arguments, timeout=900)
        # A further device compares no implementations.
        assert bool(reported.get("pairs")) is not job["further_device"]
        outcomes[job["device"]] = Outcome(events=[{"event": "facts", "certificate": reported}])
    made = assembled_certificate(planned, outcomes, "here")
    records = tuple(make_record(overrides=each) for each in (SMALL, LARGE_BATCH))
    return Certificates((certificate_of({**made, "machine": None}, "here"),), records)


@pytest.mark.parametrize("overrides", [SMALL, LARGE_BATCH], ids=["batch_32", "batch_128"])
@pytest.mark.parametrize("device", ["cpu_1", "cpu_2"])
@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "right"])
def test_what_goes_wrong_only_there_is_refused_with_that_reason(
    certificates: Certificates, name: str, device: str, overrides: dict
) -> None:
    common = {"model": "digits_rnn", "cell": "lstm", "build": "current", "device": device}
    common |= {"variant": Overrides.of(overrides), "options": NONE}
    configuration = {**common, "rnn": name}
    judgement = certificates.judge(configuration, {**configuration, "rnn": "right"})
    verdict, why = judgement.equal, judgement.why
    if (name, device) == ("two_threads", "cpu_1"):
        assert (verdict, why) == (Equality.CERTIFIED, "the same function within tolerance")
    else:
        assert verdict == Equality.UNEQUAL
        assert why.startswith(f"{name} failed: outputs differ from the float64 reference by ")
        assert CONDITIONS[name][1] in why and f" on {device}" in why, why
