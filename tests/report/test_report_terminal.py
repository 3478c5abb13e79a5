"""``rnnbench compare`` and ``rnnbench show``."""

from __future__ import annotations

import pytest

from rnnbench.commands.show import compare, show
from rnnbench.errors import ConfigError
from rnnbench.records.store import write_json
from tests.factory import make_record, put
from tests.report.made_up import quick


def store(records, results):
    for record in records:
        put(results, record)


@pytest.fixture
def results(tmp_path):
    store(quick(), tmp_path)
    return tmp_path


def test_compare_prints_each_pair_with_its_interval(results, capsys):
    assert compare(["unrolled", "keras", "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert "cpu_1" in text and "cpu_2" in text and "faster" in text and "3, 3" in text
    assert "2 ratios: even if nothing differed, about 0.1 would appear to differ" in " ".join(
        text.split()
    )


def test_another_function_gets_only_a_marked_ratio(results, capsys):
    certified = {"status": "certified", "why": None, "applied": {}}
    certificate = {
        "schema": 2, "model": "digits_rnn", "cell": "lstm", "build": "current", "overrides": {},
        "tolerance": {"gradients": 1e-4},
        "implementations": {"keras": certified, "unrolled": certified},
        "pairs": [{"a": "keras", "b": "unrolled", "gradients": 0.03, "equal": False}],
    }  # fmt: skip
    write_json(results / "here/quick/certificates/digits_rnn-lstm-current.json", certificate)
    compare(["unrolled", "keras", "--results", str(results)])
    text = capsys.readouterr().out
    assert "faster\n" not in text
    ratios = [line for line in text.splitlines() if "×" in line]
    assert len(ratios) == 2 and all(line.count("≠ 1.") == line.count("×") == 1 for line in ratios)
    assert "≠ compares the times of two different functions: not a speed-up." in text
    assert "unrolled: gradients differ by 0.03 (allowed 0.0001)" in " ".join(text.split())
    compare(["cell", "keras", "--results", str(results)])
    assert "Not certified: cell was not certified: it was not tried" in capsys.readouterr().out


def test_arguments_that_match_no_run_are_one_line_errors(results, capsys):
    with pytest.raises(ConfigError, match="equals a run"):
        compare(["nothing", "keras", "--results", str(results)])
    with pytest.raises(ConfigError, match="no record of"):
        show(["nothing", "--results", str(results)])
    with pytest.raises(ConfigError, match="matches 23 runs"):
        show(["*", "--results", str(results)])


def test_show_prints_the_run_and_its_faults(results, capsys):
    name = next(record.name for record in quick() if record.verdict.status == "void")
    assert show([name, "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert "void" in text and "the loss is not finite" in text and "rnnbench retry quick" in text
    assert "void, excluded from all results" in text


def test_compare_names_the_void_runs_that_it_excludes(tmp_path, capsys):
    store([make_record(rnn="keras"), make_record(rnn="unrolled", verdict="void")], tmp_path)
    arguments = ["unrolled", "keras", "--results", str(tmp_path)]
    with pytest.raises(ConfigError, match=r"unrolled-cpu_1.*is void and in no number: the loss is"):
        compare(arguments)
    store([make_record(rnn="unrolled", repeat=1)], tmp_path)
    assert compare(arguments) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "unrolled-cpu_1-current-s0-r0 is void and in no number: the loss is not finite" in text
