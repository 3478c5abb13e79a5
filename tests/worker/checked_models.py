"""Certifies the models of `random_models` in a build, and compares them with plain Keras."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from rnnbench.sources.certificates import Implementation, judged
from tests.worker import random_models
from tests.worker.building import CERTIFY, answer_of, certificate_job, equal, settings_of

IMPLEMENTATIONS = {
    "current": ("keras", "block", "unrolled"),
    "keras3_torch": ("keras", "native"),
    "keras3_jax": ("keras", "native"),
    "tf_2_15": ("keras", "block"),
    "tf_1_15": ("keras", "unrolled"),
}
# ``plain`` is the error of the outputs of the implementation ``keras`` against the same function
# without rnnbench, with the same weights; or why ``keras`` is refused.
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


@dataclass
class Checked:
    """What came out for the model number `seed`: the implementations that are `certified`, those
    that are `refused` with the reason, and its `faults`."""

    seed: int
    certified: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def checked(build: str, seeds: Iterable[int], folder: Path, temporary=None) -> list[Checked]:
    """The models of these `seeds`, whose files are written into `folder`. `temporary`: as that of
    `answer_of`; None if the environment of the `build` exists."""
    numbers = list(seeds)
    jobs = [_job_of(seed, build, folder) for seed in numbers]
    found = answer_of(build, EACH, json.dumps(jobs), temporary=temporary)
    return [_judged(seed, each) for seed, each in zip(numbers, found, strict=True)]


def _job_of(seed: int, build: str, folder: Path) -> dict:
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


def _judged(seed: int, certificate: dict) -> Checked:
    model = Checked(seed)
    source = random_models.model(seed)[0]
    for rnn, reported in certificate["implementations"].items():
        entry = msgspec.convert({**reported, "function_why": reported["why"]}, Implementation)
        result = judged(entry, certificate["tolerance"])
        if result.status == "certified":
            model.certified.append(rnn)
            if result.applied["cpu_1"].why is not None:
                model.faults.append(f"{rnn}: {result.applied['cpu_1'].why}")
            continue
        why = reported["why"] or str(result.why)
        line = re.search(r"model_\d+\.py, line (\d+): (.+)", why)
        expected = rf"layer \w+: {rnn} (has no|computes|cannot)"
        if result.status == "refused" and line and re.match(expected, line[2]):
            model.refused[rnn] = line[2]
        else:
            model.faults.append(f"{rnn}: {result.status}: {why}")
    for pair in certificate["pairs"]:
        if not equal(pair) and not _is_of_keras(pair, source):
            model.faults.append(f"{pair}")
    if not certificate["plain"] < 1e-5:
        model.faults.append(f"apart from plain Keras by {certificate['plain']}")
    return model


def _is_of_keras(pair: dict, source: str) -> bool:
    """Whether Keras's own layers differ: Keras 3.15's Bidirectional with a mask returns other
    outputs for the masked time steps if its layers are unrolled."""
    is_masked = "Masking" in source or "mask_zero" in source
    return "unrolled" in (pair["a"], pair["b"]) and is_masked and "Bidirectional" in source
