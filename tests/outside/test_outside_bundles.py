"""The outcomes of a bundle that were changed are refused, or have no effect on this machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnbench import cli
from tests.conftest import make_project
from tests.exchange.bundles import bundle, run
from tests.outside.attacks import ESCAPE, HTML
from tests.outside.conftest import contents, without_imports

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle after its runs, as if another machine had measured them."""
    project = make_project(tmp_path_factory.mktemp("project"))
    folder = bundle(project, "small", tmp_path_factory.mktemp("bundle") / "b", "repeat=0")
    result = run(folder)
    assert result.returncode == 0, result.stderr
    for file in folder.glob("out/**/outcome.json"):
        data = json.loads(file.read_text())
        data["hardware"]["machine"] = "away"
        file.write_text(json.dumps(data))
    return folder


def outcome(folder: Path) -> Path:
    return sorted(folder.glob("out/[a-z]*-r0/*/outcome.json"))[0]


def edited(**values: Any) -> Change:
    def change(folder: Path) -> None:
        file = outcome(folder)
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return change


def written(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def event(**fields: Any) -> Change:
    """One more event of a run."""

    def change(folder: Path) -> None:
        with outcome(folder).with_name("events.jsonl").open("a") as events:
            events.write(json.dumps({"t": 1.0, **fields}) + "\n")

    return change


def linked(folder: Path) -> None:
    log = outcome(folder).with_name("log")
    log.unlink(missing_ok=True)
    log.symlink_to("/etc/passwd")


REFUSED: dict[str, Change] = {
    "another machine's folder": edited(hardware={"machine": "../../x"}),
    "of this machine": edited(hardware={"machine": "home"}),
    "a machine that is a number": edited(hardware={"machine": 3}),
    "no hardware": edited(hardware=None),
    "another plan": edited(digest="0" * 64),
    "another run": edited(name="x-s0-r0"),
    "no start": edited(started="now"),
    "an end that is a number": edited(finished=7),
    "an exit code of text": edited(exit_code="x", turns=[{"turn": "x"}]),
    "turns that are texts": edited(turns=["x"]),
    "turns that lack what others used": edited(turns=[{"turn": 0, "cycle": 0}]),
    "a round without others": edited(round=None),
    "a round without the run": edited(round={"id": "x", "members": [], "companions": []}),
    "a round of numbers": edited(round={"id": "x", "members": [1, 2]}),
    "a list": lambda folder: outcome(folder).write_text("[]"),
    "not JSON": lambda folder: outcome(folder).write_text("{"),
    "no plan": written("plan.jsonl", "{}\n"),
    "an experiment in another folder": written("experiment.json", json.dumps({"name": "../x"})),
    "facts that are a list": written("experiment.json", "[]"),
    "skipped runs that are a list": written("out/skipped.json", "[1]"),
    "a link to a file of this machine": linked,
    "a link to a folder of this machine": lambda folder: (folder / "out/x").symlink_to("/etc"),
    "a pipe": lambda folder: os.mkfifo(outcome(folder).with_name("more")),
}
CONTAINED: dict[str, Change] = {
    "a share of negative seconds": edited(seconds=-1e9, garbage="x", oom_kill=HTML),
    "garbage": event(event="facts", measured={"peak_memory_bytes": -1, "card": 3}),
    "negative seconds": event(event="epoch", epoch=9, start=1, seconds=-3, samples=1, steps=1),
    "text that controls a terminal": event(event="error", phase="train", type=HTML, message=ESCAPE),
    "noise": lambda folder: outcome(folder).with_name("events.jsonl").write_bytes(b"\xff\x00" * 99),
}


@pytest.mark.parametrize("change", [pytest.param(v, id=k) for k, v in REFUSED.items()])
def test_a_bundle_that_was_changed_is_refused(
    home: Path, measured: Path, tmp_path: Path, change: Change, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(measured, tmp_path / "bundle")
    change(folder)
    before = contents(home)
    assert cli.main(["import", str(folder)]) == 1
    assert contents(home) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nothing was imported" in error


@pytest.mark.parametrize("change", [pytest.param(v, id=k) for k, v in CONTAINED.items()])
def test_a_bundle_of_nonsense_leaves_this_machine_alone(
    home: Path, measured: Path, tmp_path: Path, change: Change
) -> None:
    folder = shutil.copytree(measured, tmp_path / "bundle")
    change(folder)
    before = without_imports(home / "results")
    assert cli.main(["import", str(folder)]) == 0
    assert without_imports(home / "results") == before
    assert cli.main(["report", "small", "--out", str(tmp_path / "page")]) == 0
    page = contents(tmp_path / "page")
    assert not [name for name, text in page.items() if b"\x1b" in text and not name.endswith("png")]
    assert not [name for name in ("report.html", "report.md") if b"<script>alert" in page[name]]
