"""What `rnnbench round` and `certify` check before they measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rnnbench.commands import rules
from rnnbench.errors import RunError
from rnnbench.records.store import Place, write_json
from rnnbench.running.round import measure
from tests.factory import as_run, planned_certificate
from tests.running.test_running_train import planned

ENTRY = planned_certificate("d")


def test_the_path_names_the_planned_item(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(rules, "end_with_snakemake", lambda: None)
    folder = tmp_path / "results" / "here" / "mine"
    write_json(folder / "certificates.json", {"key": ENTRY})
    file = str(folder / "certificates" / "key.json")
    arguments = [file, "--digest", "d", "--root", str(tmp_path)]
    _, place, digest = rules.requested(rules.certify, arguments, "certificates")
    assert digest == "d"
    assert (place.root, place.results) == (tmp_path, tmp_path / "results")
    assert (place.site, place.experiment) == ("here", "mine")
    with pytest.raises(RunError, match="certificate key: was planned again"):
        rules.certify([file, "--digest", "other"])
    unplanned = str(folder / "certificates" / "other.json")
    with pytest.raises(RunError, match="certificate other: was planned again"):
        rules.certify([unplanned, "--digest", "d"])


def edit(file: Path) -> None:
    file.write_text("edited")


def replace(file: Path) -> None:
    """With a file of equal content."""
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


@pytest.mark.parametrize(
    ("name", "change"), [("data.npz", replace), ("model.py", edit), ("kernel.py", Path.unlink)]
)
def test_a_file_that_is_edited_while_it_is_read_leaves_no_record(
    place: Place, name: str, change: Callable[[Path], None]
) -> None:
    for file in ("data.npz", "model.py", "kernel.py"):
        (place.root / file).write_text("as it was")
    own = {
        "dataset": {"path": "data.npz"},
        "model": {"function": f"{place.root}/model.py:build"},
        "rnn": {"implementation": f"{place.root}/kernel.py"},
    }
    check = rules.watched("a_round", [own], place.root)
    check()

    def check_once_changed() -> None:
        change(place.root / name)
        check()

    with pytest.raises(RunError, match="changed while it was read; nothing was recorded"):
        measure([as_run(planned())], place, check_once_changed, label="")
    assert len(list(place.results.glob("records/*/*/2*Z.log"))) == 1
    assert not list(place.results.glob("records/*/*/2*Z.json"))
