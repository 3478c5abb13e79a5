"""Names that a shell, a terminal or a file system would take for something else are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment_file import load_experiment
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import RESERVED
from tests.conftest import ROOT
from tests.outside.attacks import RIGHT_TO_LEFT

NAMES = (
    *("a b", "a'b", 'a"b', "a;b", "a$(touch x)", "a`b`", "a|b", "a\nb", "-x", "--conf", "..", "."),
    *("a{b}", "a%b", "a#b", "a*", "~", f"a{RIGHT_TO_LEFT}b", "a\x1bb", "ä", "a" * 150),
)
GRID = "title: x\ngrids: ['device=cpu_1 rnn=keras']\n"


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_and_a_site_have_plain_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / f"{name}.yaml").write_text(GRID)
    conf = [ROOT / "conf", tmp_path]
    with pytest.raises(ConfigError) as caught:
        load_experiment(name, conf)
    message = str(caught.value)
    assert "Fix: rename the file" in message and "\n" not in message
    assert "\x1b" not in message and RIGHT_TO_LEFT not in message
    if len(name) < 100:
        with pytest.raises(ConfigError, match="the site is"):
            make_plan("quick", conf, ROOT, site=name)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_site_is_no_folder_of_the_project(name: str) -> None:
    with pytest.raises(ConfigError, match="none of"):
        make_plan("quick", [ROOT / "conf"], ROOT, site=name)


@pytest.mark.parametrize("name", ["a b", "a;b", "a$(touch x)", "a\nb", f"a{RIGHT_TO_LEFT}b", "ä"])
def test_choices_of_any_name_give_plain_names_of_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / f"{name}.yaml").write_text("name: x\nkind: cpu\nthreads: 1\n")
    conf = [ROOT / "conf", tmp_path]
    grids = f"device='{name}'".replace("\n", "\\n")
    try:
        points = expand(load_experiment("quick", conf), conf, [grids])
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    assert all(part.isascii() and part.isprintable() for part in (p.name for p in points))


def test_tags_of_yaml_create_nothing(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment/x.yaml"
    target = tmp_path / "made"
    file.write_text(f"title: !!python/object/apply:os.system ['touch {target}']\n{GRID}")
    with pytest.raises(ConfigError, match="tag"):
        load_experiment("x", [ROOT / "conf", tmp_path])
    assert not target.exists()
