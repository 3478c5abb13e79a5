from __future__ import annotations

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import split_overrides
from rnnbench.grid.grammar import Setting, combinations, parse_overrides


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
    settings = parse("+a=1", "++b=2", "~c", "d=3")
    assert {key: setting.mode for key, setting in settings.items()} == {
        "a": "+",
        "b": "++",
        "c": "~",
        "d": "",
    }


def test_combinations_are_the_product() -> None:
    product = [
        {key: value for key, (_, value) in combination.items()}
        for combination in combinations(parse("a=1,2", "b=x,y"))
    ]
    assert product == [{"a": a, "b": b} for a in (1, 2) for b in ("x", "y")]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rnn=[keras"], "here: 'rnn=.keras' is not an override"),
        (["rnn"], "'rnn' is not an override"),
        (["a=interval(0,1)"], "an interval, which has no discrete values"),
        (["device=glob(tpu*)"], "has no value, so the grid is empty"),
        (["seed=range(0)"], "has no value, so the grid is empty"),
        (["a=1", "+a=2"], "a is set twice"),
        (["model@other=a"], "names a package"),
    ],
)
def test_an_invalid_grid_is_a_one_line_error_with_a_fix(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(*overrides)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
