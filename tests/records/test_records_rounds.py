"""The files of finished rounds."""

from __future__ import annotations

from pathlib import Path

from rnnbench.records.rounds import results_in


def test_results_of_an_earlier_version_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "digits-keras-s0-r0.json").write_text("{}")
    found, (fault,) = results_in(tmp_path)
    text = str(fault)
    assert not found and text.startswith(f"{tmp_path}: has the results of an earlier version")
    assert "import its archive again" in text
