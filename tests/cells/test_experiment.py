from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.cells.experiment import load_experiment
from rnnbench.errors import ConfigError


def test_quick_is_read(conf: list[Path]) -> None:
    quick = load_experiment("quick", conf)
    assert quick.reference == {"rnn": "keras"}
    assert quick.grids[0][0] == "model=digits_rnn"
    assert quick.order_seed == 0


def test_an_unknown_experiment_lists_the_known_ones(conf: list[Path], extra: Path) -> None:
    (extra / "experiment" / "other.yaml").write_text("grids: [rnn=keras]")
    with pytest.raises(ConfigError, match=r"'quikc' is unknown.*mean quick.* are .*other, quick"):
        load_experiment("quikc", conf)


def test_one_name_in_two_folders_is_refused(conf: list[Path], extra: Path) -> None:
    (extra / "experiment" / "quick.yaml").write_text("grids: [rnn=keras]")
    with pytest.raises(ConfigError, match="rename one of the two files"):
        load_experiment("quick", conf)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grids: []", "mine.yaml: grids is empty"),
        ("title: x", "grids is empty"),
        ("grids: ['']", r"grids\[0\] is empty"),
        ("grids: [3]", r"grids\[0\] is 3"),
        ("grid: [rnn=keras]", "unknown key 'grid'.*did you mean grids"),
        ("grids: [rnn=keras]\nreference: {rnnn: keras}", "did you mean rnn"),
        ("grids: [rnn=keras]\nreference: {rnn: kears}", "did you mean keras"),
        ("grids: [rnn=keras]\nreference: keras", "reference is 'keras'"),
        ("grids: [rnn=keras]\norder_seed: x", "order_seed is 'x'"),
        ("grids: [rnn=keras]\nprobe: 3", "probe is 3"),
        ("grids: [rnn=keras", "mine.yaml: cannot be read"),
        ("grids: [a]\ngrids: [b]", "found duplicate key grids"),
        ("- a", "is not a mapping"),
    ],
)
def test_a_bad_file_is_named(conf: list[Path], extra: Path, text: str, message: str) -> None:
    (extra / "experiment" / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_experiment("mine", conf)
    assert "\n" not in str(caught.value)
