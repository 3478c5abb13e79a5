"""Choices composed together equal those composed one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid import compose
from rnnbench.grid.catalogue import files_of
from rnnbench.grid.compose import compose_choices, is_plain, packaged_choices

CONF = Path(__file__).parents[2] / "conf"


def all_choices(conf: list[Path]) -> dict[str, dict[str, Path]]:
    files = {group: files_of(conf, group) for group in NAMES}
    return files | {"model": {"mnist_rnn": files["model"]["mnist_rnn"]}}


@pytest.fixture
def compose_singly(monkeypatch: pytest.MonkeyPatch):
    def composed(conf: list[Path], requested):
        with monkeypatch.context() as patch:
            patch.setattr(compose, "packaged_choices", lambda conf, requested: [])
            return compose_choices(conf, requested, False)

    return composed


def test_all_choices_of_the_project_are_composed_together(compose_singly) -> None:
    requested = all_choices([CONF])
    assert len(packaged_choices([CONF], requested)) == sum(map(len, requested.values())) - 1
    together = compose_choices([CONF], requested, False)
    assert together == compose_singly([CONF], requested)
    for (group, choice), section in together.sections.items():
        assert section["name"] == choice, group


def test_user_supplied_choices(conf: list[Path], extra: Path, compose_singly) -> None:
    rnn = extra / "rnn"
    (rnn / "mine-2.5.yaml").write_text("defaults: [keras, _self_]\nx: ${model.units}\ny: ???")
    (rnn / "upon.yaml").write_text("defaults: [mine-2.5, _self_]\ny: 3")
    (rnn / "dataset.yaml").write_text(
        "defaults: [{override /dataset: mnist}, _self_]\nimplementation: keras"
    )
    (rnn / "upon_dataset.yaml").write_text("defaults: [dataset, _self_]\ny: 1")
    (rnn / "elsewhere.yaml").write_text("# @package rnn\nimplementation: keras")
    known = files_of(conf, "rnn")
    names = ["mine-2.5", "upon", "elsewhere"]
    assert [is_plain(known[name], known) for name in names] == [True, True, False]
    assert not is_plain(known["dataset"], known) and not is_plain(known["upon_dataset"], known)
    requested = {"rnn": {name: known[name] for name in names}}
    together = compose_choices(conf, requested, True)
    assert together == compose_singly(conf, requested)
    assert together.sections["rnn", "upon"]["x"] == "${model.units}"
    assert together.sections["rnn", "upon"]["y"] == 3


def test_invalid_files_are_not_plain(conf: list[Path], extra: Path) -> None:
    texts = ["defaults: [b]", "defaults: [a]", "defaults: 3", "defaults: [", "- defaults"]
    files = {}
    for name, text in zip("abcde", texts, strict=True):
        files[name] = extra / "rnn" / f"{name}.yaml"
        files[name].write_text(text)
    assert not any(is_plain(file, files) for file in files.values())
    assert not is_plain(extra / "rnn" / "absent.yaml", files)


def test_a_section_in_config_yaml_is_part_of_each_choice(tmp_path: Path, compose_singly) -> None:
    copy = tmp_path / "conf"
    copy.mkdir()
    for folder in CONF.iterdir():
        if folder.is_dir():
            (copy / folder.name).symlink_to(folder)
    (copy / "config.yaml").write_text((CONF / "config.yaml").read_text() + "\nrnn: {x: 1}\n")
    requested = {"rnn": {name: CONF / "rnn" / f"{name}.yaml" for name in ("keras", "unrolled")}}
    library = compose_choices([copy], requested, True)
    assert [library.sections["rnn", name]["x"] for name in requested["rnn"]] == [1, 1]
    assert library == compose_singly([copy], requested)


def test_the_error_names_the_faulty_choice(conf: list[Path], extra: Path) -> None:
    for name in ("good", "bad", "fine"):
        (extra / "rnn" / f"{name}.yaml").write_text("implementation: keras")
    (extra / "rnn" / "bad.yaml").write_text("implementation: .nan")
    known = files_of(conf, "rnn")
    requested = {"rnn": {name: known[name] for name in ("good", "bad", "fine")}}
    with pytest.raises(ConfigError, match="rnn=bad ") as caught:
        compose_choices(conf, requested, True)
    assert "good" not in str(caught.value)
