"""The overrides of a configuration as text, and back."""

from __future__ import annotations

from rnnbench.records.labels import in_words, parts_of


def test_the_single_overrides_of_a_text_are_found_again() -> None:
    overrides = {"model.units": 8, "rnn.options.betas": [0.9, 0.99], "dataset.path": "a, b"}
    assert parts_of(in_words(overrides)) == ["path=a,b", "units=8", "betas=[0.9,0.99]"]
    assert parts_of(in_words({})) == parts_of(None) == []
