"""The JSON schemas for editors agree with rnnbench's checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rnnbench.grid.model_choice import KEYS, OPTIMIZERS
from tests.grid.test_model_choices import MINE_YAML, ROOT

jsonschema = pytest.importorskip("jsonschema")
FILES = [(group, file) for group in ("model", "rnn") for file in (ROOT / "conf" / group).glob("*")]


def schema(group: str) -> dict:
    return json.loads((ROOT / f"conf/schemas/{group}.json").read_text())


@pytest.mark.parametrize(("group", "file"), FILES, ids=lambda value: Path(str(value)).stem)
def test_every_shipped_choice_is_valid(group: str, file: Path) -> None:
    rules = schema(group)
    content = yaml.safe_load(file.read_text())
    if any(isinstance(entry, str) and entry != "_self_" for entry in content.get("defaults", ())):
        rules.pop("required")  # the file in its defaults has the other keys
    jsonschema.validate(content, rules)


@pytest.mark.parametrize(
    "change", [{"optimizer": "adam"}, {"recurrent": "yes please"}, {"function": "mine.py"}]
)
def test_an_invalid_model_is_rejected(change: dict) -> None:
    good = yaml.safe_load(MINE_YAML)
    jsonschema.validate(good, schema("model"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, **change}, schema("model"))


def test_the_schema_has_the_keys_and_optimizers_of_the_check() -> None:
    properties = schema("model")["properties"]
    assert set(properties) - {"defaults"} == set(KEYS)
    assert set(properties["optimizer"]["properties"]["name"]["enum"]) == set(OPTIMIZERS)
