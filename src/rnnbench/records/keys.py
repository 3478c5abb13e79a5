"""The key that matches a run with the certificate of its function. It is safe as a file name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from rnnbench.axes import CERTIFIED_AXES, DOCUMENTATION
from rnnbench.records.overrides import Settings

OF_THE_FUNCTION = (*CERTIFIED_AXES, "dataset", "precision")
# What decides how long and on which samples a model is trained; the sizes of its batches follow
# from the first three.
OF_BATCHES = ("batch", "train_samples", "val_samples")
OF_TRAINING = {f"model.{key}" for key in (*OF_BATCHES, "epochs", "metrics", "data_seed")}
SCHEMAS = (3, 4)  # of certificates. Those of schema 3 do not train with the model's own optimizer.


def function_of(config: Mapping[str, object], schema: int = 4) -> dict[str, object]:
    """The values of a composed `config` that a certificate of `schema` depends on."""
    left_out = OF_TRAINING | ({"model.optimizer"} if schema == 3 else set())
    function: dict[str, object] = {}
    for name in OF_THE_FUNCTION:
        section = config.get(name)
        if isinstance(section, Mapping):
            kept = {}
            for key, value in section.items():
                if key not in DOCUMENTATION and f"{name}.{key}" not in left_out:
                    kept[key] = value
            section = kept
        function[name] = section
    function["precision"] = function["precision"] or "float32"
    return function


def certificate_key(
    choices: Mapping[str, str], config: Mapping[str, object], schema: int = 4
) -> str:
    """The key of the certificate of the function: ``digits_rnn-lstm-current-0a1b2c3d4e5f``. It ends
    with a digest of `function_of`; the choices before it are for the reader."""
    text = json.dumps(function_of(config, schema), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    parts = [choices[axis] for axis in CERTIFIED_AXES if axis in choices]
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "_", "-".join([*parts, digest[:12]]))


def function_overrides(overrides: Settings) -> Settings:
    """The `overrides` (dotted key → value) that change the function."""
    changing = {}
    for key, value in overrides.items():
        words = key.removeprefix("~").split(".")
        if words[0] in OF_THE_FUNCTION and ".".join(words[:2]) not in OF_TRAINING:
            changing[key] = value
    return changing
