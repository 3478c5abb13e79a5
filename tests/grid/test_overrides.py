"""Overrides: Hydra's grammar, and their strict application."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnbench.errors import ConfigError
from rnnbench.grid.apply import apply_settings
from rnnbench.grid.experiment import split_overrides
from rnnbench.grid.overrides import Setting, combinations, parse_overrides, same
from tests.grid.conftest import assert_error


def parse(*overrides: str) -> dict[str, Setting]:
    return parse_overrides(overrides, "here", lambda group: ["cpu_1", "cpu_2", "gpu"])


def test_overrides_are_split_at_blanks_outside_quotes_and_brackets() -> None:
    text = "a=1,2  b='x y'\n c=range(1, 3) d=[1, [2, 3]] e=\"it's\" f={g: 1} h='\\' i'"
    expected = ["a=1,2", "b='x y'", "c=range(1, 3)", "d=[1, [2, 3]]", 'e="it\'s"', "f={g: 1}"]
    assert split_overrides(text) == [*expected, "h='\\' i'"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("seed=range(3)", (0, 1, 2)),
        ("seed=2", (2,)),
        ("a.b=0.1,true,null,'x,y'", (0.1, True, None, "x,y")),
        ("a=choice(1,2)", (1, 2)),
        ("a=[1,2],[3]", ([1, 2], [3])),
        ("a={b: 'c d'}", ({"b": "c d"},)),
        ("device=glob(*)", ("cpu_1", "cpu_2", "gpu")),
        ("device=glob([cpu*,g*],exclude=*_2)", ("cpu_1", "gpu")),
        ("model=/home/me/mine.yaml", ("/home/me/mine.yaml",)),
    ],
)
def test_hydras_grammar_is_supported(text: str, values: tuple[object, ...]) -> None:
    (setting,) = parse(text).values()
    assert setting.values == values


def test_prefixes_are_modes() -> None:
    modes = {key: setting.mode for key, setting in parse("+a=1", "++b=2", "~c", "d=3").items()}
    assert modes == {"a": "+", "b": "++", "c": "~", "d": ""}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rnn=[keras"], "here: 'rnn=.keras' is not an override"),
        (["rnn"], "'rnn' is not an override"),
        (["a=interval(0,1)"], "an interval, which has no discrete values"),
        (["device=glob(tpu*)"], "has no value, so the grid is empty"),
        (["seed=range(0)"], "has no value, so the grid is empty"),
        (["repeat=range(1000000)"], r"'repeat=range.*' has 1,000,000 values.*at most 100,000"),
        (["a=range(0,1,0)"], "has inf values"),
        (["a=1", "+a=2"], "a is set twice"),
        (["model@other=a"], "names a package"),
    ],
)
def test_a_text_that_is_not_an_override_is_an_error(overrides: list[str], message: str) -> None:
    assert_error(message, parse, *overrides)


def test_a_grid_that_is_too_large_is_not_expanded() -> None:
    settings = parse("a=1,2", "b=range(1000)", "c=range(1000)")
    assert_error(r"here: the grid has 2,000,000 points", next, combinations(settings))


CONFIG: dict[str, Any] = {
    "model": {
        **{"name": "mine", "function": "a.b:c", "units": 64, "rate": 0.5, "loss": "mse"},
        **{"note": "x", "rates": [1, 2], "optimizer": {"name": "adam"}},
    },
    "build": {"python": None, "environment": {}},
    "rnn": {"implementation": "keras"},
    "dataset": {"path": "???"},
}


def apply(key: str, value: Any = None, mode: str = "") -> tuple[Any, dict[str, Any]]:
    return apply_settings(CONFIG, [Setting(key, mode, (value,), "here")])


def test_a_change_copies_only_its_path() -> None:
    config, differing = apply("model.units", 128)
    assert config["model"]["units"] == 128
    assert CONFIG["model"]["units"] == 64
    assert config["build"] is CONFIG["build"]
    assert differing == {"model.units": 128}


@pytest.mark.parametrize(("key", "value"), [("model.units", 64), ("build.python", None)])
def test_the_default_value_is_not_an_override(key: str, value: Any) -> None:
    assert apply(key, value) == (CONFIG, {})


def test_an_integer_becomes_a_float_if_the_default_is_one() -> None:
    assert repr(apply("model.rate", 1)[1]) == "{'model.rate': 1.0}"


VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "1", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner),
    max_leaves=4,
)


@given(VALUES, VALUES)
def test_values_of_other_types_differ_at_every_depth(first: Any, second: Any) -> None:
    """Python says that True, 1 and 1.0 are equal, also inside lists and sections."""
    assert same(first, second) == (repr(first) == repr(second))


def test_an_override_of_another_type_in_a_list_is_not_dropped() -> None:
    config = {**CONFIG, "model": {**CONFIG["model"], "pairs": [[1, 2]]}}
    setting = Setting("model.pairs", "", ([[True, 2]],), "here")
    assert apply_settings(config, [setting])[1] == {"model.pairs": [[True, 2]]}


def test_a_dict_is_merged_key_by_key() -> None:
    config, differing = apply("model", {"units": 8, "optimizer": {"name": "sgd"}})
    assert differing == {"model.units": 8, "model.optimizer.name": "sgd"}
    assert config["model"]["loss"] == "mse"


def test_adding_and_deleting() -> None:
    assert apply("build.environment.TF_X", "1", "+")[0]["build"]["environment"] == {"TF_X": "1"}
    assert apply("model.units", 3, "++")[1] == {"model.units": 3}
    config, differing = apply("model.note", None, "~")
    assert "note" not in config["model"]
    assert differing == {"~model.note": None}
    assert_error(
        "deletes a key that a run needs.*write model.function=VALUE",
        apply,
        "model.function",
        None,
        "~",
    )


@pytest.mark.parametrize(
    ("key", "mode", "value", "message"),
    [
        ("model.unist", "", 3, "model.unist is not a key.*did you mean model.units"),
        ("modle.units", "", 3, "did you mean model.units"),
        ("zzz", "", 3, "the sections are model, build, rnn, dataset"),
        ("repeats.most", "", 3, "change repeats in the experiment's file"),
        ("repeats.most", "+", 3, "a key of an experiment's file, which no override changes"),
        ("x", "+", "y", "unknown key 'x'"),
        ("model.units", "", None, "model.units=null has no meaning.*its default is 64"),
        ("model.depth", "", 3, "if its code reads it, add depth to the file of model=mine"),
        ("model.depth", "+", 3, "the code of model=mine does not read it"),
        ("model.rates", "", [True, 2], r"must be a list with items of the type of its default.s"),
        ("model.units", "+", 3, "exists already.*model.units=VALUE"),
        ("model.units.deep", "+", 3, "model.units is an integer and has no keys.*remove it"),
        ("model.x", "~", None, "not a key"),
        ("model.note", "~", 3, "whose value is 'x'"),
        ("model.units", "", "abc", "is a string; it must be an integer"),
        ("model.units", "", True, "is true or false; it must be an integer"),
        ("model.loss", "", 3, "its default is 'mse'.$"),
        ("model.note", "", 3, "its default is 'x'; put the value in quotes"),
        ("model.rate", "", float("nan"), "not finite"),
        ("model", "", 3, "it must be a section"),
    ],
)
def test_an_invalid_override_is_an_error(key: str, mode: str, value: Any, message: str) -> None:
    assert_error(message, apply, key, value, mode)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=range(0.1,0.8,0.1)", None),
        ("a=range(0.8,0.1,-0.1)", None),
        ("a=range(0.1,0.75,0.1)", 7),
        ("a=range(0,0.3,0.1)", 3),
        ("a=range(1,4)", 3),
        ("a=range(1,4,1)", 3),
    ],
)
def test_a_range_never_contains_its_stop(text: str, values: int | None) -> None:
    """Hydra 1.3 adds up 0.1 with its rounding errors, and 0.8 is then below the stop 0.8."""
    if values is not None:
        assert len(parse_overrides([text], "here", lambda group: ())["a"].values) == values
        return
    with pytest.raises(ConfigError) as caught:
        parse_overrides([text], "here", lambda group: ())
    assert "contains its stop" in caught.value.what and "0.3" in str(caught.value.remedy)
