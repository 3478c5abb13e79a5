"""The schemas that editors check a YAML with say what rnnbench says."""

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


@pytest.mark.parametrize(("group", "file"), FILES, ids=lambda one: Path(str(one)).stem)
def test_every_choice_that_ships_fits(group: str, file: Path) -> None:
    whole = schema(group)
    content = yaml.safe_load(file.read_text())
    if any(isinstance(entry, str) and entry != "_self_" for entry in content.get("defaults", ())):
        whole.pop("required")  # the rest stands in the file that it builds on
    jsonschema.validate(content, whole)


@pytest.mark.parametrize(
    "change", [{"optimizer": "adam"}, {"recurrent": "yes please"}, {"function": "mine.py"}]
)
def test_a_slip_does_not(change: dict) -> None:
    good = yaml.safe_load(MINE_YAML)
    jsonschema.validate(good, schema("model"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, **change}, schema("model"))


def test_they_know_what_the_check_knows() -> None:
    known = schema("model")["properties"]
    assert set(known) - {"defaults"} == set(KEYS)
    assert set(known["optimizer"]["properties"]["name"]["enum"]) == set(OPTIMIZERS)
