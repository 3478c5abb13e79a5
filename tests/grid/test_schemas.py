"""The JSON schemas for editors are those of rnnbench's own checks."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from rnnbench.grid.choices import Model, Rnn, schemas
from tests.grid.test_model_choices import MINE_YAML, ROOT

KINDS = {"model": Model, "rnn": Rnn}
FILES = [(group, file) for group in KINDS for file in (ROOT / "conf" / group).glob("*")]


def test_the_files_are_up_to_date() -> None:
    for name, text in schemas().items():
        assert (ROOT / "conf" / "schemas" / name).read_text() == text, "run `make schemas`"


@pytest.mark.parametrize(("group", "file"), FILES, ids=lambda value: Path(str(value)).stem)
def test_every_shipped_choice_is_valid(group: str, file: Path) -> None:
    rules = msgspec.json.schema(KINDS[group])
    content = yaml.safe_load(file.read_text())
    if any(isinstance(entry, str) and entry != "_self_" for entry in content.get("defaults", ())):
        # The file in its defaults has the other keys.
        rules["$defs"][KINDS[group].__name__].pop("required")
    jsonschema.validate(content, rules)


@pytest.mark.parametrize(
    "change", [{"optimizer": "adam"}, {"recurrent": "yes please"}, {"function": "mine.py"}]
)
def test_an_invalid_model_is_rejected(change: dict) -> None:
    good, rules = yaml.safe_load(MINE_YAML), msgspec.json.schema(Model)
    jsonschema.validate(good, rules)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, **change}, rules)
