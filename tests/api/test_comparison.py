"""What a comparison tells a program are the numbers and sentences of the page."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import rnnbench
from rnnbench.records.plan_file import Experiment
from rnnbench.records.store import write_json
from rnnbench.report import numbers as n
from rnnbench.report.answer import answers
from rnnbench.report.comparison import Comparison
from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.tables.certificates import Certificates
from tests.conftest import ROOT
from tests.report.made_up import as_read, certificate, layers, measurements, quick, steps, store


@pytest.fixture
def result() -> Comparison:
    return Comparison(measurements(quick()), None)


@pytest.fixture
def on_one(result: Comparison) -> Comparison:
    return result.at(device="cpu_1")


def test_importing_it_loads_no_framework_no_pandas_and_no_snakemake() -> None:
    code = (
        "import sys, rnnbench; print(*rnnbench.__all__);"
        "heavy = {'tensorflow', 'keras', 'snakemake', 'pandas', 'mlflow', 'hydra', 'numpy'};"
        "print(heavy & set(sys.modules))"
    )
    words = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    names, loaded = subprocess.check_output(words, text=True, env=environment).splitlines()
    assert names.split() == ["Comparison", "RnnbenchError", "compare", "load", "predict"]
    assert loaded == "set()"
    with pytest.raises(AttributeError, match="no attribute 'comapre'"):
        _ = rnnbench.comapre


def test_a_ratio_is_that_of_the_table_and_of_the_sentence(on_one: Comparison) -> None:
    rows = on_one.frame().set_index("implementation")
    for name in ("unrolled", "cell"):
        ratio = on_one.ratio(name)
        row = rows.loc[name]
        numbers = [row["speedup"], row["speedup_low"], row["speedup_high"]]
        assert [ratio.value, ratio.low, ratio.high] == numbers
        assert (ratio.verdict, ratio.base) == (row["words"], "keras")
    said = f"{n.times(on_one.ratio('unrolled').value)} as fast as Keras's own layer"
    assert said in str(on_one)


def test_any_two_have_a_ratio_and_the_opposite_one(on_one: Comparison) -> None:
    ratio = on_one.ratio("unrolled", "cell")
    opposite = on_one.ratio("cell", "unrolled")
    assert ratio.value * opposite.value == pytest.approx(1)
    assert ratio.low * opposite.high == pytest.approx(1)
    assert on_one.ratio("keras").verdict == "reference" and on_one.ratio("keras").low == 1


def test_the_fastest_is_named_only_if_it_is_shown(on_one: Comparison) -> None:
    others = [each for each in on_one.implementations if each not in ("unrolled", "block")]
    assert all(on_one.ratio("unrolled", other).low > 1 for other in others)
    contest = on_one._tables.contests[0]
    assert on_one.fastest == (None if contest.rivals else contest.contestants[0].name)
    levels = [each for each in quick() if each.run.choices["rnn"] in ("keras", "unrolled")]
    two = Comparison(measurements(levels), None).at(device="cpu_1")
    assert two.fastest == "unrolled" and two.ratio("unrolled").verdict == "faster"


def test_several_comparisons_are_chosen_among(result: Comparison) -> None:
    with pytest.raises(rnnbench.RnnbenchError) as caught:
        _ = result.fastest
    assert "has 2 comparisons" in str(caught.value) and "at(device='cpu" in str(caught.value)
    for given in ({"device": "cpu_9"}, {"rnn": "block"}, {"nothing": "x"}, {"device": 1}):
        said = "no comparison with .*=.*. Fix: choose by device='cpu_1' or 'cpu_2'"
        with pytest.raises(rnnbench.RnnbenchError, match=said):
            result.at(**given)
    assert len(result.frame()) == 2 * len(result.at(device="cpu_2").frame())


def test_an_unknown_name_is_an_error_with_a_fix(on_one: Comparison) -> None:
    with pytest.raises(rnnbench.RnnbenchError, match="Fix: did you mean unrolled"):
        on_one.ratio("unroled")
    with pytest.raises(rnnbench.RnnbenchError, match="no implementation 'nothing'"):
        on_one.ratio("keras", "nothing")
    for name in (None, 3, ["block"]):
        with pytest.raises(rnnbench.RnnbenchError, match="there is no implementation"):
            on_one.ratio(name)


def test_certificates_decide_about_speedups(result: Comparison) -> None:
    assert not result.certificate and "not certified" in str(result.certificate)
    # The made-up certificate is of one thread.
    keep = ({"keras", "cpu_1"}, {"unrolled", "cpu_1"})
    records = [each for each in quick() if set(each.run.choices.values()) >= keep[0]]
    records += [each for each in quick() if set(each.run.choices.values()) >= keep[1]]
    for gradients, is_equal in ((1e-7, True), (0.03, False)):
        made = certificate("current", "digits_rnn") | {"machine": records[0].machine}
        for each in made["implementations"].values():
            each |= {"probed": {"cpu_1": layers()}, "applied": {"cpu_1": steps()}}
        for pair in made["pairs"]:
            pair |= {"gradients": gradients, "equal": is_equal}
        certificates = Certificates(as_read(made), tuple(records), frozenset())
        both = Comparison(measurements(records, certificates=certificates), None)
        ratio = both.ratio("unrolled")
        if is_equal:
            assert both.certificate.holds and ratio.value > 1
            assert str(both.certificate) == "2 implementations compute the same function"
        else:
            assert not both.certificate and "differ by 0.03" in both.certificate.text
            assert math.isnan(ratio.value) and ratio.verdict == "not the same function"
            assert both.fastest is None


def test_one_run_has_no_interval_and_fails_each_assertion() -> None:
    single = [each for each in quick() if each.run.repeat == 0]
    ratio = Comparison(measurements(single), None).at(device="cpu_1").ratio("unrolled")
    assert math.isnan(ratio.low) and ratio.value > 1
    assert not ratio.low > 0 and not ratio.high < 100
    assert "one run" in str(ratio)


def test_the_frame_is_the_table_of_the_page(tmp_path: Path) -> None:
    about = Experiment("quick", "t", "", {"rnn": "keras"})
    frame = Comparison(Tables(quick(), about, ReportInputs()), None).frame()
    write_report(Content(quick(), about), tmp_path)
    written = pd.read_csv(tmp_path / "tables/time.csv")
    again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    pd.testing.assert_frame_equal(again, written)


def test_a_notebook_shows_the_answer_and_the_table(result: Comparison) -> None:
    html = result._repr_html_()
    first = str(answers(result._tables)[0]).partition("`")[0]
    assert first in html and "<code>unrolled</code>" in html and "cpu_2" in html
    for row in result.frame().itertuples():
        assert n.plain(row.epoch_seconds) in html
    assert "<script" not in html and str(result) in repr(result)


def test_what_was_measured_is_loaded_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(quick(), tmp_path / "results")
    folder = tmp_path / "results/here/quick"
    lines = [record.run.line() for record in quick()]
    (folder / "plan.jsonl").write_bytes(b"".join(lines))
    facts = {"name": "quick", "title": "t", "about": "", "reference": {"rnn": "keras"}}
    write_json(folder / "experiment.json", facts)
    (tmp_path / "Snakefile").write_text("")
    below = tmp_path / "notebooks/old"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    loaded = rnnbench.load("quick")
    expected = Comparison(measurements(quick()), None)
    assert loaded.at(device="cpu_2").ratio("block") == expected.at(device="cpu_2").ratio("block")
    assert loaded.page is None and Path.cwd() == below
    with pytest.raises(rnnbench.RnnbenchError, match="Fix: measure it first: `rnnbench run quik`"):
        rnnbench.load("quik")

    with pytest.raises(rnnbench.RnnbenchError, match="typo: is not a project"):
        rnnbench.load("quick", project="typo")
    assert not Path("typo").exists(), "it was made"
    monkeypatch.chdir("/")
    assert rnnbench.load("quick", project=tmp_path).implementations == loaded.implementations
    with pytest.raises(
        rnnbench.RnnbenchError, match='Fix: say where to keep them: project="speed"'
    ):
        rnnbench.load("quick")
