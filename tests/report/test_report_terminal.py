"""``rnnbench compare`` and ``rnnbench show``."""

from __future__ import annotations

import pytest

from rnnbench.commands.compare import main as compare
from rnnbench.commands.show import main as show
from rnnbench.errors import ConfigError
from rnnbench.records.store import write_json
from tests.report.made_up import quick


@pytest.fixture
def results(tmp_path):
    for record in quick():
        place = f"records/{record.key}.json"
        write_json(tmp_path / place, record.to_json())
        write_json(tmp_path / "here" / "quick" / f"{record.name}.json", {"record": place})
    return tmp_path


def test_compare_prints_each_pair_with_its_interval(results, capsys):
    assert compare(["unrolled", "keras", "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert "cpu_1" in text and "cpu_2" in text and "faster" in text and "3, 3" in text
    assert "2 ratios: about 0.1 would look different by chance" in text


def test_what_does_not_fit_is_one_line(results, capsys):
    with pytest.raises(ConfigError, match="alike"):
        compare(["nothing", "keras", "--results", str(results)])
    with pytest.raises(ConfigError, match="no record of"):
        show(["nothing", "--results", str(results)])
    with pytest.raises(ConfigError, match="fits 23 runs"):
        show(["*", "--results", str(results)])


def test_show_prints_the_run_and_its_faults(results, capsys):
    name = next(record.name for record in quick() if record.verdict.status == "void")
    assert show([name, "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert "void" in text and "the loss is not finite" in text and "rnnbench retry quick" in text
