"""Parsed grids from the cache equal those that Hydra parses, and an entry ends with its sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid import parse
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, load_experiment
from rnnbench.grid.parse_cache import StoredGrids
from rnnbench.grid.point import GridPoint

CONF = Path(__file__).parents[2] / "conf"
NAMES = sorted(file.stem for file in (CONF / "experiment").glob("*.yaml"))


def points_of(
    experiment: Experiment, conf: list[Path], cache: Path, overrides: Sequence[str] = ()
) -> tuple[GridPoint, ...]:
    """The grid points, expanded as in a start of Snakemake, which stores the parsed grids."""
    stored = StoredGrids(experiment, conf, overrides, cache)
    points = expand(experiment, conf, overrides, stored=stored)
    stored.store()
    return points


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the experiments that were parsed with Hydra."""
    names = []
    function = parse.parse_grids

    def counted(experiment, conf, overrides):
        names.append(experiment.name)
        return function(experiment, conf, overrides)

    monkeypatch.setattr(parse, "parse_grids", counted)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_the_second_expansion_needs_no_hydra(name: str, tmp_path: Path, parses: list[str]) -> None:
    first, second = (points_of(load_experiment(name, [CONF]), [CONF], tmp_path) for _ in range(2))
    assert parses == [name]
    assert second == first
    assert repr(second) == repr(first), "the order of keys decides names and identities too"


class Mine:
    """An experiment of a user's own, expanded with a cache."""

    def __init__(self, folder: Path, conf: list[Path]) -> None:
        self.folder, self.conf, self.cache = folder, conf, folder.parent / "cache"
        self.grid = "model=digits_rnn rnn=mine ++model.x=1,2.5,null,[3],'a b' seed=range(2)"
        self.write("rnn", "mine", "implementation: keras")

    def write(self, group: str, name: str, text: str) -> Path:
        file = self.folder / group / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def points(self, *overrides: str) -> tuple[GridPoint, ...]:
        self.write("experiment", "mine", f'grids: ["{self.grid}"]')
        experiment = load_experiment("mine", self.conf)
        return points_of(experiment, self.conf, self.cache, overrides)


@pytest.fixture
def mine(extra: Path, conf: list[Path]) -> Mine:
    return Mine(extra, conf)


def test_an_edited_choice_experiment_or_command_line_is_parsed_again(
    mine: Mine, parses: list[str]
) -> None:
    first = mine.points()
    assert mine.points() == first and len(parses) == 1
    mine.write("rnn", "mine", "implementation: cell")
    edited = mine.points()
    assert {point.config["rnn"]["implementation"] for point in edited} == {"cell"}
    assert {point.seed for point in mine.points("seed=7")} == {7}
    mine.grid = "model=digits_rnn rnn=mine seed=3"
    assert [point.seed for point in mine.points()] == [3]
    assert len(parses) == 4


def test_an_edited_file_outside_the_config_folders_is_parsed_again(
    mine: Mine, tmp_path: Path, parses: list[str]
) -> None:
    device = tmp_path / "slow.yaml"
    device.write_text("kind: cpu\nthreads: 1\nname: slow")
    mine.grid = f"model=digits_rnn device={device}"
    assert [point.config["device"]["threads"] for point in mine.points()] == [1]
    device.write_text("kind: cpu\nthreads: 2\nname: slow")
    assert [point.config["device"]["threads"] for point in mine.points()] == [2]
    assert len(parses) == 2
    device.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        mine.points()


def test_checks_of_named_files_do_not_depend_on_the_cache(mine: Mine, extra: Path) -> None:
    kernel = extra / "rnn" / "own.py"
    kernel.write_text("def make(keras, cell, units, options): ...\n")
    mine.write("rnn", "mine", "implementation: own.py")
    mine.grid = "model=digits_rnn rnn=mine"
    with pytest.raises(ConfigError, match=r"to_canonical"):
        mine.points()
    kernel.unlink()
    with pytest.raises(ConfigError, match=r"does not exist"):
        mine.points()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 3}'])
def test_a_damaged_entry_only_costs_time(mine: Mine, parses: list[str], text: str) -> None:
    first = mine.points()
    (entry,) = mine.cache.iterdir()
    entry.write_text(text)
    assert mine.points() == first
    assert mine.points() == first and len(parses) == 2


def test_a_cache_that_cannot_be_written_only_costs_time(mine: Mine, parses: list[str]) -> None:
    mine.cache.write_text("a file in its place")
    assert mine.points() == mine.points() and len(parses) == 2
