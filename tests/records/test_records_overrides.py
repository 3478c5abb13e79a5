"""Overrides as the value of a table's column."""

from __future__ import annotations

import pandas as pd
import pytest

from rnnbench.records.keys import certificate_key
from rnnbench.records.overrides import (
    NONE,
    Overrides,
    label,
    option_of,
    reference_label,
    section_of,
)

WRITTEN = {"model.units": 8, "rnn.options.betas": [0.9, 0.99], "dataset.path": "a, b"}


def test_overrides_are_shown_by_the_last_components_of_their_keys() -> None:
    overrides = Overrides.of(WRITTEN)
    assert overrides.texts == ["path=a,b", "units=8", "betas=[0.9,0.99]"]
    assert str(overrides) == "path=a,b, units=8, betas=[0.9,0.99]"
    assert overrides.get("dataset.path") == "a, b" and overrides.get("model.batch") is None
    assert str(NONE) == "" and not NONE and overrides


def test_overrides_of_two_sections_with_one_name_are_not_the_same() -> None:
    model, device = Overrides.of({"model.threads": 2}), Overrides.of({"device.threads": 2})
    assert str(model) == str(device) and model != device
    assert model.contains(NONE) and model.contains(model) and not model.contains(device)


@pytest.mark.parametrize("sort", [True, False])
def test_a_table_can_be_grouped_sorted_merged_and_written_by_overrides(sort: bool) -> None:
    batches = [Overrides.of({"model.batch": size}) for size in (64, 8, 64)]
    table = pd.DataFrame({"variant": [*batches, NONE], "seconds": [1.0, 2.0, 3.0, 4.0]})
    means = table.groupby("variant", sort=sort)["seconds"].mean()
    assert means.to_dict() == {batches[0]: 2.0, batches[1]: 2.0, NONE: 4.0}
    assert list(map(str, table.sort_values("variant")["variant"])) == ["", *["batch=64"] * 2,
                                                                        "batch=8"]  # fmt: skip
    assert len(table.merge(means.rename("mean").reset_index(), on="variant")) == 4
    assert (table["variant"] == batches[0]).tolist() == [True, False, True, False]
    assert table.to_csv(index=False).splitlines()[1:4:2] == ["batch=64,1.0", "batch=64,3.0"]


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ({"rnn": "keras"}, "keras"),
        ({"rnn": "keras", "rnn.options.implementation": 1}, "keras implementation=1"),
        ({"rnn.options.implementation": 1}, "implementation=1"),
        ({"rnn": "keras", "device": "cpu_1"}, "keras, cpu_1"),
        ({}, ""),
    ],
)
def test_a_reference_is_named_by_its_choices(reference: dict, text: str) -> None:
    assert reference_label(reference) == text


def test_a_choice_is_named_with_the_overrides_of_its_own_section() -> None:
    overrides = {"rnn.op": "V3", "rnnish.op": 1, "model.units": 8, "~rnn.dropout": None}
    assert label("raw", overrides, "rnn") == "raw op=V3, dropout=None"
    assert label("raw", {}, "rnn") == "raw"
    assert section_of("~model.optimizer.decay") == "model" and section_of("seed") == "seed"
    assert option_of("rnn.options.units.x") == "units.x" and option_of("rnn.op") == ""


def test_overrides_of_equal_text_are_told_apart() -> None:
    """One value with a comma, and two overrides."""
    one = Overrides.of({"model.a": "1, b=2"})
    two = Overrides.of({"model.a": 1, "model.b": 2})
    assert (one.complete, two.complete) == ('model.a="1, b=2"', 'model.a="1", model.b="2"')
    assert (one < two) != (two < one)


def test_the_key_of_a_certificate_is_a_safe_file_name() -> None:
    key = certificate_key({"model": "my net/é", "cell": "lstm", "rnn": "keras"}, {"model": {}})
    start, _, digest = key.rpartition("-")
    assert start == "my_net_-lstm" and len(digest) == 12
