"""Random ordinary Keras models in every build: each implementation computes what plain Keras
computes, or is refused with the line, the layer and what its kernel lacks. RNNBENCH_MODELS tries
more of them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from rnnbench.sources.certificates import Implementation, judged
from tests.worker import random_models
from tests.worker.building import CERTIFY, answer_of, certificate_job, equal, settings_of

COUNT = int(os.environ.get("RNNBENCH_MODELS", "2"))
FIRST = int(os.environ.get("RNNBENCH_FIRST_MODEL", "0"))
IMPLEMENTATIONS = {
    "current": ("keras", "block", "unrolled"),
    "keras3_torch": ("keras", "native"),
    "keras3_jax": ("keras", "native"),
    "tf_2_15": ("keras", "block"),
    "tf_1_15": ("keras", "unrolled"),
}
# Build → its first model: each gets others, and the first two are models that its kernel computes.
STARTS = {
    "current": 21, "keras3_torch": 1003, "keras3_jax": 2000, "tf_2_15": 3041, "tf_1_15": 4000
}  # fmt: skip
# Keras itself may refuse a model; else ``plain`` is the error of the outputs of the implementation
# ``keras`` against the same function without rnnbench, with the same weights.
EACH = (
    CERTIFY
    + """
import numpy
from rnnworker import data, trees, user_functions


def plain_outputs(job, session):
    function = user_functions.function(job["config"]["model"]["function"])
    model = function(session.keras)
    model.set_weights(session.model.get_weights())
    x = data.samples(session.arrays, "val")[0]
    x = list(x) if isinstance(x, tuple) else x
    return trees.leaves(model.predict(x, batch_size=16, verbose=0))


def checked(job):
    found = certificate(job)
    rnn = {"name": "keras", "implementation": "keras"}
    arrays, _ = certify.samples_of(job)
    try:
        session = certify.Trial(job, rnn, arrays).session
    except certify.Refusal as error:
        return dict(found, plain=str(error))
    weights = session.dump_weights()
    session.load_weights(weights)
    pairs = zip(trees.leaves(session.outputs()), plain_outputs(job, session))
    return dict(found, plain=max(certify.relative_error(*pair) for pair in pairs))


print(json.dumps([checked(job) for job in json.loads(sys.argv[1])]))
"""
)


def job_of(seed: int, build: str, folder: Path) -> dict:
    source, _, _ = random_models.model(seed)
    (folder / f"model_{seed}.py").write_text(source)
    np.savez(folder / f"{seed}.npz", **random_models.arrays(seed))
    choices = {name: {"implementation": name, "name": name} for name in IMPLEMENTATIONS[build]}
    job = certificate_job(settings_of(build)["framework"], "of_model", choices)
    job["config"]["model"] = {
        "function": f"{folder}/model_{seed}.py:build",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        "batch": 16,
        "epochs": 1,
    }
    return {**job, "dataset": str(folder / f"{seed}.npz")}


def is_of_keras(pair: dict, source: str) -> bool:
    """Whether Keras's own layers differ: Keras 3.15's Bidirectional with a mask returns other
    outputs for the masked time steps if its layers are unrolled."""
    is_masked = "Masking" in source or "mask_zero" in source
    return "unrolled" in (pair["a"], pair["b"]) and is_masked and "Bidirectional" in source


@pytest.mark.parametrize("build", IMPLEMENTATIONS)
def test_random_models_are_certified_or_refused(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    start = FIRST + STARTS[build]
    count = max(1, COUNT // 2) if build == "tf_1_15" else COUNT  # it is the slowest
    seeds = range(start, start + count)
    jobs = [job_of(seed, build, tmp_path) for seed in seeds]

    found = answer_of(build, EACH, json.dumps(jobs), temporary=tmp_path_factory)

    certified: list[str] = []
    for seed, certificate in zip(seeds, found, strict=True):
        source = random_models.model(seed)[0]
        for rnn, reported in certificate["implementations"].items():
            entry = msgspec.convert({**reported, "function_why": reported["why"]}, Implementation)
            result = judged(entry, certificate["tolerance"])
            case = (seed, rnn, result.status, result.why, source)
            assert result.status in ("certified", "refused"), case
            if result.status == "certified":
                certified.append(rnn)
                assert result.applied["cpu_1"].why is None, case
                continue
            line = re.search(r"model_\d+\.py, line (\d+): (.+)", reported["why"])
            assert line, case
            assert re.match(rf"layer \w+: {rnn} (has no|computes|cannot)", line[2]), case
        for pair in certificate["pairs"]:
            assert equal(pair) or is_of_keras(pair, source), (seed, pair, source)
        assert certificate["plain"] < 1e-5, (seed, certificate["plain"], source)
    assert len(certified) >= count
    assert FIRST or set(certified) == set(IMPLEMENTATIONS[build])
