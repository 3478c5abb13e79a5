"""An archive from outside is refused, or has no effect on what was measured here."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown import markdown

from rnnbench import cli
from tests.faults.test_fuzz_input import JSON, dumped, key_paths
from tests.outside import attacks
from tests.outside.attacks import ARCHIVES, CONTAINED, REFUSED, Change, Files
from tests.outside.conftest import contents, report, without_imports


def imported(folder: Path, content: bytes) -> int:
    file = folder / "x.zip"
    file.write_bytes(content)
    code = cli.main(["import", str(file)])
    file.unlink()
    return code


def changed(change: Change) -> Callable[[Files], bytes]:
    """Makes the archive of an export after the `change`."""

    def make(away: Files) -> bytes:
        files = dict(away)
        change(files)
        assert files != away
        return attacks.packed(files)

    return make


NO_EXPORTS = [
    *(pytest.param(changed(change), id=name) for name, change in REFUSED.items()),
    *(pytest.param(make, id=name) for name, make in ARCHIVES.items()),
]


@pytest.mark.parametrize("make", NO_EXPORTS)
def test_what_is_no_export_is_refused(
    home: Path, away: Files, make: Callable[[Files], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(home)
    assert imported(home, make(away)) == 1
    assert contents(home) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nothing was imported" in error, error
    assert "\x1b" not in error and attacks.RIGHT_TO_LEFT not in error


def test_what_is_imported_has_no_effect_on_this_machine(
    home: Path, away: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, page = without_imports(home / "results"), report(tmp_path / "before")
    rows = rows_of_home(page)
    assert rows
    for number, change in enumerate(CONTAINED.values()):
        files = dict(away)
        change(files)
        name = f"away{number}".encode()
        renamed = {key.replace("away", name.decode()): value.replace(b"away", name)
                   for key, value in files.items()}  # fmt: skip
        assert imported(home, attacks.packed(renamed)) == 0, capsys.readouterr().err
    assert without_imports(home / "results") == before
    assert report(tmp_path / "own", "--site", "home") == page
    everything = report(tmp_path / "all")
    assert rows_of_home(everything) == rows
    output = capsys.readouterr()
    texts = [content for name, content in everything.items() if not name.endswith(".png")]
    for text in (*texts, output.out.encode(), output.err.encode()):
        assert b"\x1b" not in text and attacks.RIGHT_TO_LEFT.encode() not in text
    rendered = markdown(everything["report.md"].decode(), extensions=["tables"])
    for text in (everything["report.html"].decode(), rendered):
        assert "<script>alert" not in text and "<img src=x" not in text
        assert 'href="javascript' not in text
    for name, content in everything.items():
        if name.endswith(".csv"):
            cells = (cell for row in csv.reader(io.StringIO(content.decode())) for cell in row)
            assert not [cell for cell in cells if cell[:1] in ("=", "+", "@")]


def rows_of_home(files: Files) -> dict[str, list[dict[str, str]]]:
    """Table → its rows of this machine."""
    tables: dict[str, list[dict[str, str]]] = {}
    for name in ("time", "accuracy", "runs", "fastest", "epochs"):
        content = files.get(f"tables/{name}.csv", b"").decode()
        tables[name] = [
            row for row in csv.DictReader(io.StringIO(content)) if row.get("machine") == "home"
        ]
    return tables


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_change_of_an_export_leaves_this_machine_alone(
    home: Path, away: Files, tmp_path: Path, data: st.DataObject
) -> None:
    """A value anywhere in an export is replaced by another one, or a file by its first bytes."""
    before = without_imports(home / "results")
    name = data.draw(st.sampled_from(sorted(away)))
    if data.draw(st.integers(0, 9)) == 0:
        changed = away[name][: data.draw(st.integers(0, len(away[name])))]
    else:
        first, _, rest = away[name].partition(b"\n") if "plan" in name else (away[name], b"", b"")
        content = json.loads(first)
        path = data.draw(st.sampled_from(sorted(filter(None, key_paths(content)), key=str)))
        parent = content
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = data.draw(JSON)
        changed = dumped(content) + b"\n" + rest
    accepted = imported(home, attacks.packed({**away, name: changed})) == 0
    assert without_imports(home / "results") == before
    if accepted:
        report(tmp_path / "page")
        shutil.rmtree(home / "results/imported")
