"""The small form of each script in `benchmarks/`, run as a user runs it, and its figures looked at.

Times are judged loosely: a busy machine may double them, and only a broken script may fail.
"""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest

from benchmarks import components
from benchmarks.by_script import fifos
from benchmarks.slowed import digits_slowed
from rnnworker.models import digits_rnn
from tests.conftest import ROOT, Project, make_project
from tests.worker.building import build_python, write_digits

BENCHMARKS = ROOT / "benchmarks"
HEADING = re.compile(
    r"^20\d\d-\d\d-\d\d, .+, \d+ cores, load average [\d.]+ at the start, Python 3\.\d+\.\d+, "
    r"commit [0-9a-f]{40}(-edited)?:$",
    re.M,
)
# What the scripts import or start.
MODULES = {
    "round_trips/in_framework",
    "in_turns",  # beside a loop outside this repository
    *("bare", "by_hand", "experiment", "judging", "same_number", "simulated", "small", "where"),
    *("plain/authors", "plain/digits", "plain/keras_grid", "plain/turns", "plain/used"),
    *("slowed/digits_slowed", "slowed/keras_slowed"),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Runs a script with these arguments as its own program, but in this process, which has already
    imported what most of them import. Returns what it prints below the heading."""
    monkeypatch.setenv("RNNBENCH_TIMING_LOCK", str(tmp_path / "timing.lock"))
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)

    def run_script(name: str, *arguments: object) -> str:
        script = str(BENCHMARKS / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            assert not end.code, end.code
        out = capfd.readouterr().out
        heading = HEADING.search(out)
        assert heading, out
        return out[heading.end() :]

    return run_script


def tables_of(text: str) -> list[list[list[str]]]:
    """The tables in Markdown: the cells of their rows, below the heads."""
    tables = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        head, _, *lines = block.splitlines()
        rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
        assert rows and {len(row) for row in rows} == {head.count("|") - 1}, block
        tables.append(rows)
    return tables


def test_every_script_has_a_test() -> None:
    text = Path(__file__).read_text()
    tested = set(re.findall(r'\brun\("(\w+)"', text)) | set(re.findall(r"(plain/\w+)\.py", text))
    scripts = {
        path.relative_to(BENCHMARKS).with_suffix("").as_posix() for path in BENCHMARKS.rglob("*.py")
    }
    assert tested | MODULES == scripts


def test_accuracy(run) -> None:
    text = run("accuracy", "--small")
    wrong = re.findall(r"^(\d+) seeds, (\d+) comparisons: ([\d.]+) ([\d.]+) ([\d.]+)$", text, re.M)
    assert len(wrong) == 4 * 4 and all(0 <= float(share) <= 100 for row in wrong for share in row)
    # With two seeds, no difference in accuracy is ever shown.
    assert {row[3] for row in wrong if row[0] == "2"} == {"0.0"}
    # A true difference of 5 points is, with ten.
    power = re.findall(r"^5%, 10 seeds, \d+ comparisons: \d+ (\d+)", text, re.M)
    assert power == ["100"] * 4


def test_fastest(run) -> None:
    text = run("fastest", "--small")
    assert "\n20 experiments in each row" in text
    rows, by_the_rule = tables_of(text)
    assert len(by_the_rule) == 3 * 4 * 3
    wrong = [float(share) for row in by_the_rule for share in row[3:]]
    assert 0 < sum(wrong) / len(wrong) <= 2.5
    assert len(rows) == 3 * 3 * (4 + 4 + 3)
    assert all(row[9] == "0" for row in rows), "a sentence against the intervals of its page"
    assert all(row[4] == row[5] for row in rows if row[1] == "2"), "as Student, no less and no more"
    near = [float(row[3]) for row in rows if "nearly equal" in row[0]]
    rows = [row for row in rows if "nearly equal" not in row[0]]
    wrong = [float(row[3]) for row in rows]
    named = [float(row[4]) for row in rows]
    by_oracle = [float(row[6]) for row in rows]
    # Of 720 experiments, 10 to 30 % have a fastest that can be shown.
    assert sum(wrong) / len(wrong) <= 2.5 and 10 <= sum(named) / len(named) <= 30
    assert sum(near) / len(near) <= 2.5
    assert sum(named) <= sum(by_oracle)


def test_calibration(run) -> None:
    text = run("calibration", "--small")
    assert len(re.findall(r"^## ", text, re.M)) == 10
    tables = tables_of(text)
    assert [len(table) for table in tables] == [3, 3, 3, 3, 3, 3, 2, 3, 3, 3]
    assert "nan" not in text
    covered = [float(row[1].rstrip("%")) for row in tables[1]]
    assert sum(covered) / len(covered) > 60
    # Equal members: no sentence is wrong, and each page says that there is no difference.
    (_, _, none) = tables[3]
    assert none[1] == "no difference shown" and none[2] == none[3] and none[4] == "0"
    # Ratios are the same number everywhere.
    assert all(int(given) > 0 and differs == "0" for _, given, differs in tables[9])


def test_epoch_position(run, measured_small: Project) -> None:
    """Four runs of five epochs, each of which sleeps as long as the others."""
    (table,) = tables_of(text := run("epoch_position", measured_small.folder / "results"))
    assert [row[0] for row in table] == ["1", "2", "3", "4", "5"]
    effects = [float(row[1].rstrip("%")) for row in table]
    assert all(-100 < effect < math.inf for effect in effects)
    assert "4 runs of 5 epochs" in text and "p = " in text


def test_report_scale(run) -> None:
    (((records, wall, cpu, peak, page, files),),) = tables_of(run("report_scale", "--small"))
    assert records == "50" and int(files) >= 15
    assert float(cpu) > 0 and float(wall) > 0 and int(peak) > 50 and 0.1 < float(page) < 5


def test_planning(run) -> None:
    (table,) = tables_of(run("planning", "--small"))
    assert [row[:2] for row in table] == [
        ["`snakemake -n`", "40"], ["`rnnbench grid`", "40"], ["nothing to do", "20"],
    ]  # fmt: skip
    for row in table:
        assert float(row[2]) > 0 and int(row[7]) > 20
    for row in (table[0], table[2]):
        for ratio in (row[4], row[6]):
            assert 0 < float(ratio.split()[0]) < math.inf


def test_start(run) -> None:
    """The worker sleeps 50 ms in place of an import, 20 to build and 50 in its first step."""
    (((runs, *seconds),),) = tables_of(run("start", "--small"))
    outside, imports, data, build, first, warmup, handshakes, total = map(float, seconds)
    assert runs == "1"
    assert imports >= 0.05 and build >= 0.02 and first >= 0.05 and warmup >= 0.02
    assert total < 50, "not in milliseconds"
    parts = outside + imports + data + build + first + warmup + handshakes
    assert total == pytest.approx(parts, abs=0.05)


def test_overhead(run) -> None:
    (((runs, each, wall, workers, ratio, *_, cpu, resident),),) = tables_of(
        run("overhead", "--small")
    )
    assert runs == "1" and 1.0 <= float(each) == float(workers) < float(wall)
    assert float(ratio) == pytest.approx(float(wall) / float(workers), rel=0.1)
    assert cpu.endswith("% of a core") and 10 < int(resident) < 500


def test_alone(run) -> None:
    """An epoch sleeps 0.1 s, in turns and alone."""
    (((batch, pairs, turns, alone, ratio, span),),) = tables_of(run("alone", "--small"))
    assert (batch, pairs, span) == ("16", "1", "one pair")
    assert 0.1 <= float(turns) < 50 and 0.1 <= float(alone) < 50
    assert float(ratio) == pytest.approx(float(turns) / float(alone), abs=0.01)


def test_forked(run) -> None:
    last = run("forked", "--small").splitlines()[-1]
    found = re.match(
        r"fake, 1 threads: forked / started ([\d.]+) \(([\d.]+)–([\d.]+)\), 2 rounds", last
    )
    assert found, last
    ratio, low, high = map(float, found.groups())
    assert 0 <= low <= ratio <= high
    assert last.endswith("the losses of all four were equal in 2 rounds")


def test_launchers(run) -> None:
    (table,) = tables_of(run("launchers", "--small"))
    names = ["hydra --multirun", "shell loop", "rnnbench, plan only"]
    assert [row[0] for row in table] == names
    assert all(row[1] == "1" and float(row[2]) > 0.5 for row in table)


def rows_of_grid(text: str) -> dict[tuple[str, str], list[str]]:
    """Layer and option → what each column says, without the size of a difference."""
    (table,) = tables_of(text)
    rows = {}
    for layers, option, *cells in table:
        for layer in layers.split(", "):
            rows[layer, option] = [re.sub(r" by [\d.]+$", "", cell) for cell in cells]
    return rows


# `SMALL_LAYERS` and `SMALL_OPTIONS` of plain/keras_grid.py, which imports Keras.
IN_SMALL_GRID = {
    "layers": {"LSTM", "Bidirectional", "RNN of cells"},
    "options": {
        *("last output", "mask, sequences", "mask, zero_output_for_mask", "go_backwards, mask"),
        *("stateful, second call", "mixed_float16, stateful", "use_cudnn=True on a CPU"),
    },
}


def test_grid_of_keras(run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What docs/models.md says about the pinned versions, for the layers and options of the small
    form, which leaves out XLA on TensorFlow."""
    pythons = []
    for backend in ("torch", "jax"):
        python = build_python(f"keras3_{backend}", "3.11", tmp_path_factory)
        pythons += ["--python", f"{backend}={python}"]
    text = run("grid_of_keras", "--small", *pythons)
    page = (ROOT / "docs/models.md").read_text()
    section = page.partition("## What differs between backends")[2].partition("\n## ")[0]
    written = {}
    for (layer, option), cells in rows_of_grid(section).items():
        if layer in IN_SMALL_GRID["layers"] and option in IN_SMALL_GRID["options"]:
            written[layer, option] = cells[:2] + cells[3:]
    assert rows_of_grid(text) == written and len(written) == 12
    pattern = r"^(\d+) other answers agree; .* within ([\d.e-]+)\.$"
    ((agree, largest),) = re.findall(pattern, text, re.M)
    assert int(agree) > 50 and float(largest) < 1e-6
    assert text.endswith("keeps under mixed_float16: float32.\n")


def test_parting(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two implementations, and a learning rate that is a thousandth higher."""
    for name in ("TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES", "KERAS_BACKEND"):
        monkeypatch.setenv(name, "")  # the script sets them
    ((parted,), (nothing, rate)) = tables_of(run("parting", "--small"))
    assert parted[:2] == ["classes", "0.01"]
    first, _, last = (float(cell) for cell in parted[2:5])
    assert 0 < first < last < 1e-4 and float(parted[8]) > 0
    assert nothing[1:5] == ["nothing: unrolled", "2", "0", "0"] and rate[4] == "2"


def test_rounds(run) -> None:
    """`slow2` is slowed by 2 % of each step, which `test_a_step_is_slowed_once` checks: two rounds
    cannot show it."""
    text = run("rounds", "--small")
    (table,) = tables_of(text)
    assert [row[:3] for row in table] == [["slow2", "2", "1"]]
    for row in table:
        ratio, low, high = map(float, re.findall(r"[\d.]+", row[4]))
        assert 0 <= low <= ratio <= high
    spreads = re.findall(r": ([\d.]+)%$", text, re.M)
    assert len(spreads) == 2 and all(math.isfinite(float(spread)) for spread in spreads)
    assert re.search(r"^4 runs, \d of them suspect$", text, re.M)


class Model:
    """Makes a training step that takes a second of a clock."""

    train_function = None

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def make_train_function(self, force: bool = False) -> None:
        if force or self.train_function is None:
            self.train_function = self.step

    def step(self, batch: str) -> str:
        self.clock[0] += 1.0
        return batch


def test_components(run) -> None:
    out = run("components", "--small")
    assert "3 processes" in out
    shown = dict(re.findall(r"^\| between (\w+) \| ([\d.]+) \|", out, re.M))
    assert shown.keys() == {"processes", "trainings", "cycles"}
    rows = re.findall(r"^\| (\d+) \| (\d+)% \| (\d+) \|", out, re.M)
    shares = [int(share) for _, share, _ in rows]
    assert rows[0][0] == "1" and shares == sorted(shares)


@pytest.mark.parametrize("known", [(0.02, 0.01), (0.0, 0.03), (0.01, 0.0)])
def test_components_of_known_variance(known: tuple[float, float]) -> None:
    """2,000 processes of four trainings with known standard deviations."""
    process, training = known
    generator = numpy.random.default_rng(1)
    made = []
    for between in generator.normal(0.4, process, 2000):
        medians = generator.normal(between, training, 4)
        made.append(components.Process(medians, 0.0, 20.0, 3.0, 2.0))
    found = components.components_of(made)
    assert math.sqrt(found.process) == pytest.approx(process, abs=0.002)
    assert math.sqrt(found.training) == pytest.approx(training, abs=0.001)
    assert found.of_process(2) == pytest.approx(process**2 + training**2 / 2, rel=0.1, abs=1e-5)


@pytest.mark.parametrize("slower", [0.0, 0.02, 0.1])
def test_a_step_is_slowed_once(monkeypatch: pytest.MonkeyPatch, slower: float) -> None:
    clock = [0.0]

    def now() -> float:
        clock[0] += 1e-4
        return clock[0]

    model = Model(clock)
    monkeypatch.setattr(digits_slowed, "time", types.SimpleNamespace(perf_counter=now))
    monkeypatch.setattr(digits_rnn, "build", lambda *_: model)
    built = digits_slowed.build(None, None, {"rnn": {"options": {"slower": slower}}})
    for force in (False, False, True):
        built.make_train_function(force)
        begin = clock[0]
        assert built.train_function("batch") == "batch"
        assert clock[0] - begin == pytest.approx(1 + slower, abs=1e-3)


@pytest.fixture
def old_project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the environment of TensorFlow 1.15."""
    python = build_python("tf_1_15", "3.7", tmp_path_factory)
    project = make_project(tmp_path / "project")
    (project.folder / "results").mkdir()
    (project.folder / "results/envs").symlink_to(python.parents[2])
    (project.folder / "workflow").symlink_to(ROOT / "workflow")
    return project


def test_by_script(run, old_project: Project) -> None:
    """The worker and plain/tensorflow1.py."""
    text = run("by_script", "--small", "--root", old_project.folder)
    (((build, pairs, worker, script, ratio, span, _),),) = tables_of(text)
    assert (build, pairs) == ("tf_1_15", "1") and span.startswith("one pair")
    assert 0 < float(worker) < 10 and 0 < float(script) < 10
    assert 0 < float(ratio) < math.inf


def test_the_plain_script_of_keras_3(tmp_path: Path) -> None:
    """plain/keras3.py, with turns from here."""
    write_digits(tmp_path / "digits.npz", train=32, val=16)
    with fifos(tmp_path / "turns") as side:
        process = subprocess.Popen(
            [
                *(sys.executable, BENCHMARKS / "plain/keras3.py", tmp_path / "digits.npz"),
                *("32", "4", "16", "2", "0", "1", tmp_path / "turns", "pipeline"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2):
            side.wait_until_ready()
            side.go()
        seconds = json.loads(process.communicate(timeout=300)[0].splitlines()[-1])
    assert process.returncode == 0 and len(seconds) == 2
    assert all(0 < each < 60 for each in seconds)


def test_suite(run) -> None:
    """One file of this checkout's tests, twice."""
    ((whole, tier),) = tables_of(run("suite", "--small"))
    assert (whole[0], tier[0]) == ("all", "quick")
    before, after, ratio = map(float, whole[1:4])
    low, high = (after - 0.051) / (before + 0.051), (after + 0.051) / (before - 0.051)
    assert low - 0.006 < ratio < high + 0.006, "more than rounding the seconds explains"
    assert float(whole[4]) > 0.1 and before >= float(tier[1])


def test_one_step(tmp_path: Path, old_project: Project) -> None:
    """plain/one_step.py: if all gradients are computed first, no step differs."""
    write_digits(tmp_path / "digits.npz", train=64, val=16)
    (python,) = (old_project.folder / "results/envs").glob("tf_1_15-*/bin/python")
    command = [python, BENCHMARKS / "plain/one_step.py", tmp_path / "digits.npz"]
    done = subprocess.run([*command, "--small", "--ordered"], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["LSTM implementation=1"]["differ"] == 0
    assert found["LSTM implementation=1"]["worst"] < 0.01
    assert re.match(r"[0-9a-f]{7,40}(-edited)?$", found["commit"]) and found["cpu"]


def test_in_a_program(run) -> None:
    """A program of one's own gets a speed-up from `rnnlayers.use`."""
    text = run("in_a_program", "--small")
    (((model, *programs, compared),),) = tables_of(text)
    assert (model, compared) == ("frozen", "not run")
    for program in programs:
        found = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", program)
        assert found, text
        ratio, low, high = map(float, found.groups())
        assert 0 <= low <= ratio <= high
    assert len(programs) == 3


def test_random_models(run) -> None:
    text = run("random_models", "--small", "--first", 21)
    assert "1 models in current, of which 0 have a fault." in text
    (rows,) = tables_of(text)
    assert rows == [[name, "1", "0"] for name in ("keras", "block", "unrolled")]


def test_answering(run) -> None:
    """What timing each call adds is said in ns and as a share of a call of 50 µs."""
    text = run("answering", "--small")
    found = re.search(r"added (-?\d+) ns: (-?[\d.]+) % of a call", text)
    assert found, text
    assert float(found[2]) == pytest.approx(100 * int(found[1]) / 50_000, abs=0.01)


def test_runtimes(run) -> None:
    """Two layers through two conversions: one equal, one refused by both, with the reasons."""
    text = run("runtimes", "--small")
    ((defaults, gelu),) = tables_of(text)
    assert defaults[0] == "LSTM: defaults" and all(float(cell) < 1e-5 for cell in defaults[1:])
    assert gelu[2:] == ["refused [1]", "refused [2]"]
    assert "2. layer NAME: ONNX's LSTM node has no activation gelu" in text


def test_a_round_trip_is_measured_in_the_framework(run) -> None:
    (rows,) = tables_of(run("round_trips", "--small"))
    assert [row[0] for row in rows] == ["`keras.GRU`", "`keras.LSTM`", "`keras.SimpleRNN`"]
    assert all(max(map(float, row[2:])) <= 1e-6 for row in rows)


def test_a_large_checkpoint_is_converted_in_turns_with_cp(run) -> None:
    (rows,) = tables_of(run("large_weights", "--small"))
    assert len(rows) == 5
    for row in rows:
        seconds, cpu_seconds = map(float, row[2].split(", "))
        assert cpu_seconds > 0 and 0 < seconds < 60
        assert float(row[4]) > 0


def test_in_turns_compares_the_intervals_of_both() -> None:
    from benchmarks import in_turns

    printed = """LSTM B=1 predict_on_batch     3.618 ms   1.00x (1.00-1.00)
LSTM B=1 predict             49.000 ms   0.07x (0.06-0.08)
GRU B=32 torch.nn             1.100 ms   1.05x (1.00-1.10)
"""
    by_hand = in_turns.ratios_in(printed)
    assert by_hand == {
        ("LSTM", 1, "keras_predict"): (0.07, 0.06, 0.08),
        ("GRU", 32, "torch_eager"): (1.05, 1.00, 1.10),
    }
    again = "GRU B=32 torch.nn 1.1 ms 1.00x (0.90-1.05)\nGRU B=32 torch.nn 1.1 ms 1.04x (1.0-1.2)\n"
    of_three = in_turns.ratios_in(printed + again)["GRU", 32, "torch_eager"]
    assert of_three == (1.04, 0.90, 1.2)
    by_us = {("LSTM", 1, "keras_predict"): in_turns.Ratio(0.09, 0.08, 0.1)}
    lines = in_turns.table(by_hand, by_us)
    assert lines[2].endswith("| yes |") and lines[3].endswith("| None | not timed |")
    assert lines[-1] == "1 of 2 ratios agree."
    by_us["GRU", 32, "torch_eager"] = in_turns.Ratio(1.2, 1.11, 1.3)
    assert in_turns.table(by_hand, by_us)[3].endswith("| **no** |")
