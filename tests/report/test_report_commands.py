"""``rnnbench report``, ``compare``, ``show`` and others, with missing and broken records."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace as changed

from rnnbench.cli import main
from rnnbench.commands import question as module
from rnnbench.commands.compare import _limit, compare
from rnnbench.commands.show import show
from rnnbench.errors import ConfigError
from rnnbench.grid.experiment import LONGEST
from rnnbench.plain_text import is_name
from rnnbench.records.store import write_json, write_record
from rnnbench.report.terminal import print_answers
from tests.conftest import ROOT
from tests.factory import forget, make_record, replace
from tests.report.made_up import EXPERIMENT, SKIPPED, UNEQUAL, certificate, quick, store


@pytest.fixture
def results(tmp_path):
    store(quick(), tmp_path)
    return tmp_path


def test_compare_prints_each_pair_with_its_interval(results, capsys):
    arguments = ["unrolled", "keras", "--results", str(results)]
    assert compare(arguments) == 0
    text = capsys.readouterr().out
    *answers, imported, used = text.splitlines()[-6:]
    assert all(" as fast as `keras` (" in line for line in answers[::2])
    assert all(line.endswith(" s per epoch, 3 and 3 runs") for line in answers[1::2][:1])
    assert (
        imported.endswith("from rnnlayers import use") and used.strip() == 'use(model, "unrolled")'
    )
    assert "cpu_1" in text and "cpu_2" in text
    for ratio in re.findall(r"trains (\S+) times", text):
        assert text.count(ratio) == 1, "each ratio once"
    assert "2 ratios: even if nothing differed, about 0.1 would appear to differ" in " ".join(
        text.split()
    )


def test_three_are_compared_pair_by_pair_and_a_condition_names_one(results, capsys):
    words = ["compare", "keras", "unrolled", "cell", "--results", str(results)]
    assert main([*words, "--json", "-"]) == 0
    pairs = json.loads(capsys.readouterr().out)
    assert {type(row["method"]) for row in pairs} == {str}, "as in the CSV tables"
    both = [(row["a"], row["b"]) for row in pairs if row["same"] == pairs[0]["same"]]
    assert both == [("keras", "unrolled"), ("keras", "cell"), ("unrolled", "cell")]
    assert main(["compare", "keras", "unrolled", "--results", str(results), "--json", "-"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [row for row in pairs if row["b"] == "unrolled"] == alone, "one number for each pair"

    bounds = [sorted((1 / row["low"], 1 / row["high"])) for row in alone]  # of each device
    two = ["compare", "keras", "unrolled", "--results", str(results)]
    for place, sign, factor in ((0, ">", 0.99), (0, ">", 1.01), (1, "<", 1.01), (1, "<", 0.99)):
        bound = (max if sign == ">" else min)(both[place] for both in bounds)
        fails = (sign == ">") == (factor < 1)
        assert main([*two, "--fail-if", f"unrolled{sign}{bound * factor}"]) == int(fails)
        inverse = {"<": ">", ">": "<"}[sign]
        assert main([*two, "--fail-if", f"keras{inverse}{1 / bound / factor}"]) == int(fails)
    capsys.readouterr()

    ratio = 1 / alone[0]["ratio"]
    assert main([*words, "--fail-if", f"unrolled>{ratio / 2}"]) == 1
    assert main([*words, "--fail-if", f"unrolled>{ratio * 2}"]) == 0
    assert main([*words, "--fail-if", "keras>1"]) == 2
    assert "does not say what keras is compared with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "holds"),
    [("a<1.3", True), ("a<1.2", False), ("a > 1.1", True), ("a>1.2", False)],
)  # fmt: skip
def test_a_condition_holds_for_the_whole_interval(text, holds):
    assert _limit(text, ["a", "b"]).holds(1.15, 1.25) == holds


@pytest.mark.parametrize("text", ["a", "c<1", "a<b", "a<-1", "a=1"])
def test_another_text_is_no_condition(text):
    with pytest.raises(ConfigError, match="is no condition"):
        _limit(text, ["a", "b"])


def test_another_function_gets_only_a_marked_ratio(results, capsys):
    write_json(results / "here/quick/certificates/digits_rnn-lstm-current.json", UNEQUAL)
    compare(["unrolled", "keras", "--results", str(results)])
    text = capsys.readouterr().out
    assert "faster\n" not in text
    ratios = [line for line in text.splitlines() if "×" in line]
    assert len(ratios) == 2 and all(line.count("≠ 1.") == line.count("×") == 1 for line in ratios)
    assert "≠ compares the times of two different functions: not a speed-up." in text
    assert "unrolled: gradients differ by 0.03 (allowed 0.0001)" in " ".join(text.split())
    assert ": No speed-up between `unrolled` and `keras`: " in text.splitlines()[-1]
    with pytest.raises(ConfigError, match="no pair has an interval"):
        compare(["unrolled", "keras", "--results", str(results), "--fail-if", "unrolled<9"])
    capsys.readouterr()
    compare(["cell", "keras", "--results", str(results)])
    assert "Not certified: cell was not certified: it was not tried" in capsys.readouterr().out


def test_show_prints_the_run_and_its_faults(results, capsys):
    name = next(record.name for record in quick() if record.verdict.status == "void")
    assert show([name, "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert (
        "void" in text
        and "the loss is not finite" in text
        and f"rnnbench retry quick {name}" in text
    )
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


@pytest.fixture
def planned(tmp_path):
    """Results with a plan, of which one record is missing and one is damaged."""
    folder, records = tmp_path / "results" / "here" / "quick", quick()
    store(records[:-1], tmp_path / "results")
    (tmp_path / "results" / records[-2].path).write_text("{")
    (folder / "plan.jsonl").write_bytes(b"".join(record.run.line() for record in records))
    facts = {"name": "quick", "title": EXPERIMENT.title, "about": "", "skipped": SKIPPED}
    write_json(folder / "experiment.json", {**facts, "reference": {"rnn": "keras"}})
    return tmp_path / "results"


def report(planned, *arguments, name="quick"):
    """The exit code of ``rnnbench report``."""
    return main(["report", name, "--results", str(planned), "--site", "here", *arguments])


# Words on the command line → what the error says; {} is a folder.
BAD = {
    "compare nothing keras": "no measured run matches 'nothing'",
    "compare keras block --site nowhere": "--site nowhere: has no results. Fix: name one of here",
    "report quick --site here --site nowhere": "--site nowhere: nowhere has no plan of quick. Fix: "
    "name a site that has one: here",
    "report qui*": "no site has a plan of qui.",
    "export * -o {}/x.zip": "has no runs of . at any site",
    "report quick --site=": "has no plan of quick. Fix: name a site that has one: here",
    "report quick --site /x": "--site /x: /x has no plan of quick. Fix: name a site that has one",
    "compare keras block --site /x": "--site /x: has no results. Fix: name one of here",
    "history quick --site nowhere": "nowhere has no plan of quick",
    "import {}": "/here: is not a bundle: it has no experiment.json; nothing was imported",
    "compare keras block --experiment quik": "--experiment quik: .* Fix: did you mean quick",
    "show nothing": "no record of",
    "show *": "matches 21 runs",
    "report quick --deadline 60": "--deadline: there is no price for cpu_1, cpu_2. Fix: give",
    "report quick --price gce_2017": "--price gce_2017: there is no price for cpu_1, cpu_2. Fix: ",
    "report quick --price {}/net.yaml": "net.yaml: is not a price list: it has no prices",
    "retry quick foo* --site here": "no finished run is named 'foo.*'. Fix: `rnnbench grid",
    "export quik -o {}/x.zip": "has no runs of quik at any site. Fix: did you mean quick",
    "export quick -o {}": "^rnnbench: [^ ]*/results/here: cannot be written: Is a directory. Fix: ",
    "import {}/series.npz": "/here/series.npz: is not an export: .* Fix: name a file of `rnnbench",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_arguments_are_a_one_line_error_with_a_fix(words, planned, capsys):
    (planned / "here/net.yaml").write_text("about: a network")
    np.savez(planned / "here/series.npz", x=[1])
    damaged = quick()[-2]
    shutil.rmtree((planned / damaged.path).parent)
    forget(planned / f"here/quick/rounds/{damaged.run.round}.json", damaged.name)
    arguments = [word.replace("{}", str(planned / "here")) for word in words.split()]
    assert main([*arguments, "--results", str(planned)]) in (1, 2)
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and error.count("Fix: ") == 1
    assert re.search(BAD[words], error), error


def test_readable_runs_are_reported_and_the_others_counted(planned, tmp_path, capsys):
    out = tmp_path / "out"
    assert report(planned, "--out", str(out)) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert "as fast as Keras's own layer" in lines[0]
    brackets = (
        "In brackets: 95 % confidence intervals. Measured within 4 minutes: at another hour, "
    )
    assert lines[1].startswith(brackets)
    assert lines[2].startswith("Not certified: `unrolled`, `block`, `cell`. ")
    assert lines[3] == "1 of 23 planned runs are missing."
    assert output.err.count("left out") == 1 and f"{quick()[-2].path}" in output.err
    assert f"{quick()[-2].path}: cannot be read" in (out / "report.md").read_text()
    assert lines[-1] == str(out / "report.html")
    assert quick()[-1].name in (out / "report.html").read_text()


def test_the_records_of_a_round_that_failed_are_reported(planned, tmp_path, capsys):
    """Its file is missing, because another run of the round was killed."""
    write_record(planned, replace(quick()[-1], site="here"))
    assert report(planned, "--out", str(tmp_path / "out")) == 0
    assert "planned runs are missing" not in capsys.readouterr().out
    assert "without a record" not in (tmp_path / "out/report.md").read_text()
    last = quick()[-1]
    assert last.key in (tmp_path / "out/tables/runs.csv").read_text()

    # So that `compare` says the same ratio.
    own, device = last.run.choices["rnn"], last.run.choices["device"]
    other = "unrolled" if own == "keras" else "keras"
    words = ["compare", f"{own},{device}", f"{other},{device}", "--results", str(planned)]
    assert main([*words, "--json", "-"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)
    page = pd.read_csv(tmp_path / "out/tables/time.csv").set_index(["implementation", "device"])
    assert pair["runs_a"] == page.runs[own, device]


def test_a_site_where_nothing_can_run_takes_nothing_from_the_page(planned, tmp_path):
    empty = planned / "a_first_site" / "quick"
    obstacle = {"why": "none of the 24 grid points can run.", "remedy": "go elsewhere."}
    facts = {"name": "quick", "title": "Nothing", "about": "", "reference": {}}
    write_json(empty / "experiment.json", {**facts, "obstacle": obstacle})
    (empty / "plan.jsonl").write_bytes(b"")
    out = tmp_path / "out"
    arguments = ["report", "quick", "--results", str(planned), "--out", str(out)]
    assert main(arguments) == 0
    text = (out / "report.md").read_text()
    assert text.startswith(f"# {EXPERIMENT.title}") and "as fast as Keras's own layer" in text
    assert main([*arguments, "--site", "a_first_site"]) == 0
    text = (out / "report.md").read_text()
    assert "**None of the 24 grid points can run.** For results of your own, go elsewhere." in text


def test_what_cannot_be_read_or_written_is_a_one_line_error(planned, tmp_path, capsys):
    def error(*arguments, **of) -> str:
        assert report(planned, *arguments, **of) == (2 if arguments else 1)
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        return message

    message = error(name="nothing")
    assert "has a plan of nothing" in message and "Fix:" in message
    (tmp_path / "file").write_text("")
    message = error("--out", str(tmp_path / "file"))
    assert f"{tmp_path}/file" in message and "Fix:" in message
    assert (tmp_path / "file").read_text() == ""
    (planned / "here" / "quick" / "experiment.json").write_text("[]")
    assert "experiment.json" in error()


def test_json_on_standard_output_is_all_that_is_printed(results, capsys):
    assert compare(["unrolled", "keras", "--results", str(results), "--json", "-"]) == 0
    assert {row["a"] for row in json.loads(capsys.readouterr().out)} == {"unrolled"}


def test_a_budget_needs_two_choices_of_one_axis(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError, match="keras and cpu_1 are not two choices of one axis"):
        compare(["keras", "cpu_1", "--budget", "1"])


@pytest.mark.parametrize("ratio", [(1.25, 1.2, 1.3), (1 / 1.25, 1 / 1.3, 1 / 1.2)])
def test_the_faster_one_comes_first_with_its_own_interval(ratio, capsys):
    names = ("block", "keras") if ratio[0] > 1 else ("keras", "block")
    row = dict(zip(("ratio", "low", "high"), ratio, strict=True))
    row |= {"a": names[0], "b": names[1], "same": "", "words": "faster", "suspect": False}
    row |= {"runs_a": 3, "runs_b": 3, "seconds_a": 0.1, "seconds_b": 0.1}
    print_answers(pd.DataFrame([row]))
    text = capsys.readouterr().out
    sentence, seconds, *use = text.splitlines()
    assert seconds == "  0.100 s and 0.100 s per epoch, 3 and 3 runs"
    assert sentence == "`block` trains 1.25 times as fast as `keras` (1.20 to 1.30)."
    assert use == ["Use it: from rnnlayers import use", '        use(model, "block")']
    others = {"block": "cell", "keras": "keras"}
    same = {side: others[row[side]] for side in ("a", "b")}
    print_answers(pd.DataFrame([row | same]))
    assert "use(model" not in capsys.readouterr().out  # it is Keras's own loop, as `keras` is
    print_answers(
        pd.DataFrame([row | {"words": "one run: no interval", "low": None, "high": None}])
    )
    out = capsys.readouterr().out
    assert out.startswith("`block` trains 1.25 times as fast") and "use(model" not in out


@pytest.mark.parametrize("order", [("block", "keras"), ("keras", "block")])
def test_single_runs_are_compared_without_an_interval(tmp_path, capsys, order):
    pair = zip(("block", "keras"), (1.2, 1.0), strict=True)
    store([make_record(rnn=rnn, epoch_seconds=[level] * 4) for rnn, level in pair], tmp_path)
    assert compare([*order, "--results", str(tmp_path)]) == 0
    answer, seconds = capsys.readouterr().out.splitlines()[-2:]
    assert answer == "`keras` trains 1.20 times as fast as `block` (one run)."
    assert seconds == "  1.00 s and 1.20 s per epoch, 1 and 1 runs"  # whatever was asked


def test_a_comparison_that_crashed_is_not_certified_wherever_a_ratio_is_read(
    planned, tmp_path, capsys
):
    """On the terminal, on the page and in Markdown."""
    made = certificate("current", "digits_rnn") | {"machine": None}
    for pair in made["pairs"]:
        pair |= {"outputs": None, "gradients": None, "loss_curve": None, "why": "KeyError: 'bias'"}
    folder = planned / "here/quick/certificates"
    write_json(folder / f"{made['key']}.json", made)
    reason = "were not compared: KeyError: 'bias'"
    assert compare(["unrolled", "keras", "--results", str(planned)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"Not certified: keras and unrolled {reason}" in printed
    out = tmp_path / "out"
    assert report(planned, "--out", str(out)) == 0
    for name in ("report.html", "report.md"):
        text = html.unescape((out / name).read_text())
        assert reason in text, name


def test_report_takes_overrides_as_run_does(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    results = tmp_path / "results"
    results.mkdir()
    assert main(["report", "quick", "model.epochs=3", "--results", str(results)]) == 1
    assert "no site has a plan of quick+model.epochs=3." in capsys.readouterr().err


def test_compare_blames_the_command_line_not_its_own_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(module, "_write_experiment", written_below(tmp_path))
    own = ["--model", "nowhere.py:build", "--data", "requirements.lock"]
    assert main(["compare", "keras", "block", *own]) == 2
    missing = f"command line: model={ROOT}/nowhere.py: no such file. Fix: correct the path."
    assert missing in capsys.readouterr().err
    assert main(["compare", "keras", "block", "--optimizer", "nope", "--budget", "1"]) == 2
    error = capsys.readouterr().err
    assert "command line: model.optimizer.name is 'nope'" in error and ".yaml" not in error


def test_compare_trains_a_model_of_ones_own_for_one_epoch_at_a_time(tmp_path):
    """Longer trainings would exceed the budget; those of rnnbench's models are short."""
    own = module.Question(choices=["keras", "block"], model="mine.py:build", data="mine.npz")
    for question, expected in ((own, True), (module.Question(choices=["keras", "block"]), False)):
        file = module._write_experiment(question, [ROOT / "conf"], tmp_path)
        ((_, *overrides),) = json.loads(file.read_text())["grids"]
        assert ("model.epochs=1" in overrides) == expected


def test_the_file_of_a_loss_and_long_names_give_an_experiment_s_name(tmp_path):
    """``--loss mine.py:my_loss`` was refused: its path became part of the name."""
    long = f"{'a' * 90}.py:build"
    for question in (
        module.Question(choices=["keras", "block"], loss="/a/mine.py:my_loss", optimizer="adam"),
        module.Question(choices=["keras", "block"], model=long, data="mine.npz"),
    ):
        file = module._write_experiment(question, [ROOT / "conf"], tmp_path)
        assert file.parent == tmp_path / "compare" and is_name(file.stem)
        assert len(file.stem) <= LONGEST
        other = changed(question, loss="/b/mine.py:my_loss")
        assert module._write_experiment(other, [ROOT / "conf"], tmp_path) != file


@pytest.mark.parametrize(
    "override", ["rnn=unrolled", "model=x.yaml", "dataset.path=x.npz", "+model.loss=mae"]
)
def test_an_override_that_contradicts_the_arguments_is_refused(override, tmp_path):
    """It replaced what they say, without a word."""
    said = {"model": "mine.py:build", "data": "mine.npz", "loss": "mse"}
    question = module.Question(choices=["keras", "block"], **said, overrides=[override])
    with pytest.raises(ConfigError, match="contradict each other"):
        module._write_experiment(question, [ROOT / "conf"], tmp_path)
    fits = changed(question, overrides=["model.epochs=3", "model.optimizer.learning_rate=0.1"])
    assert module._write_experiment(fits, [ROOT / "conf"], tmp_path).is_file()


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("rnn=unrolled", "config/config.yaml: rnn=unrolled and the arguments, which say rnn=keras"),
        ("dataset=digits", None),
    ],
)
def test_overrides_of_the_settings_are_those_of_the_command_line(
    setting, refusal, tmp_path, monkeypatch
):
    """They replaced what the arguments said, and a model was said to need data that they name."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(f"overrides: [{setting}]\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def build():\n    pass\n")
    planned = "was planned"
    monkeypatch.setattr(
        "rnnbench.planning.planner.make_plan", Mock(side_effect=ConfigError(planned))
    )
    question = module.Question(choices=["keras", "block"], model="mine.py:build")
    with pytest.raises(ConfigError, match=refusal or planned) as caught:
        module.measured(question, tmp_path)
    assert str(caught.value).startswith(refusal or planned)


def written_below(folder):
    """Writes the experiment of `compare` into `folder` instead of the results."""
    write = module._write_experiment

    def written(question, conf, results, source):
        return write(question, conf, folder, source)

    return written


def test_a_folder_that_does_not_exist_is_named(tmp_path, capsys):
    """It was told to measure, which --results forbids."""
    assert main(["compare", "keras", "block", "--results", str(tmp_path / "no")]) == 2
    assert f"--results {tmp_path}/no: is not a folder." in capsys.readouterr().err


def test_without_a_reference_the_page_has_seconds_and_no_speedups(planned, tmp_path, monkeypatch):
    """The page said that speed-ups are relative to `nothing`, and gave each one as 1.00."""
    monkeypatch.chdir(tmp_path)
    file = planned / "here/quick/experiment.json"
    write_json(file, {**json.loads(file.read_text()), "reference": {}})
    folders = ["--prices", str(ROOT / "conf/price"), "--published", str(tmp_path)]
    assert report(planned, *folders) == 0
    text = Path("reports/quick/report.md").read_text()
    assert "### Seconds per epoch" in text and "1.00×" not in text
    assert "`nothing`" not in text and "speed-up |" not in text
