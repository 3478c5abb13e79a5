from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import LONGEST, Experiment, load_experiment, varied
from rnnbench.plain_text import is_name
from rnnbench.planning.planner import plan_order
from tests.conftest import ROOT
from tests.grid.conftest import assert_error


def test_an_unknown_experiment_lists_the_known_ones(conf: list[Path], extra: Path) -> None:
    (extra / "experiment" / "other.yaml").write_text("grids: [rnn=keras]")
    message = "experiment=quikc is not a choice.*mean quick.* are .*other, .*quick"
    assert_error(message, load_experiment, "quikc", conf)


def test_an_experiment_may_be_the_path_of_its_file(conf: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text("grids: [rnn=keras]")
    assert load_experiment(str(file), conf).name == "elsewhere"
    same = tmp_path / "quick.yaml"
    same.write_text("grids: [rnn=keras]")
    assert_error("same name as .*rename your file", load_experiment, str(same), conf)


def test_overrides_make_an_experiment_of_their_own(conf: list[Path]) -> None:
    quick = load_experiment("quick", conf)
    assert varied(quick, ()) is quick
    names = [
        varied(quick, overrides.split()).name
        for overrides in (
            "model.batch=64 device=cpu_1", "device=cpu_1 model.batch=64", "model.batch=16,64",
            "model.batch=16_64", "a=1+b=2", "a=1 b=2", "model=/a/mine.yaml", "model=/b/mine.yaml",
            f"alias={'x' * 99}",
        )
    ]  # fmt: skip
    assert names[0] == names[1] == "quick+device=cpu_1+model.batch=64"
    assert names[6].startswith("quick+model=mine-")
    assert len(set(names)) == len(names) - 1, "other overrides, other names"
    assert all(is_name(name) and len(name) <= LONGEST for name in names)
    assert varied(quick, ["model.batch=64"]).title.endswith("digits (model.batch=64)")


def test_other_overrides_make_another_name() -> None:
    """All pairs of words such as ``+x=_``."""
    experiment = Experiment(name="x", grids=(("rnn=keras",),))
    ends = ["", *"=+_é", *map("".join, itertools.product("=+_/", repeat=2))]
    words = [f"{mode}x{end}" for mode in ("", "+", "++", "~") for end in ends]
    every = [[word] for word in words]
    every += map(list, itertools.combinations_with_replacement(words, 2))
    names = {varied(experiment, overrides).name for overrides in every}
    assert len(names) == len(every)
    assert all(map(is_name, names))


def test_the_same_name_in_two_folders_is_rejected(conf: list[Path], extra: Path) -> None:
    (extra / "experiment" / "quick.yaml").write_text("grids: [rnn=keras]")
    assert_error("rename one of the two files", load_experiment, "quick", conf)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grids: []", "mine.yaml: grids is empty"),
        ("title: x", "grids is empty"),
        ("grids: ['']", r"grids\[0\] is empty"),
        ("grids: [3]", "grids has the value 3; it must be a string or a list"),
        ("grids: [null]", "grids has the value None; it must be a string or a list"),
        ("grid: [rnn=keras]", "unknown key 'grid'.*did you mean grids"),
        ("grids: [rnn=keras]\nreference: {rnnn: keras}", "did you mean rnn"),
        (
            "grids: [rnn=keras]\nreference: keras",
            "reference is 'keras'; it must be a mapping or null",
        ),
        ("grids: [rnn=keras]\nprobe: false", "no key 'probe'|unknown key 'probe'"),
        ("grids: [rnn=keras", "mine.yaml, line 1: cannot be read"),
        ("grids: [a]\ngrids: [b]", "found duplicate key grids"),
        ("- a", r"the file is \['a'\]; it must be a mapping"),
        (
            "lead: speed",
            "lead is 'speed'; it must be one of calls, devices, kernels, predictions, time",
        ),
        (
            "predict: {runtimes: [framework, litert]}\nrepeats: {most: 5, until: 0.02}",
            "predict and repeats exclude each other",
        ),
        ("grid_order: random", "it must be one of interleaved, sequential"),
        ("repeats: {most: 5, until: 2%}", "repeats.until is '2%'; .* a number or null"),
        ("repeats: {most: 5, until: 0}", "repeats.until is 0; it must be a number > 0"),
        ("repeats: {most: 5, budget_s: 5min}", "repeats.budget_s is '5min'; .* a number or null"),
        ("repeats: {until: 1}", "repeats has no most. Fix: add most"),
        ("repeats: {most: 5, untl: 1}", "unknown key 'untl' in repeats. Fix: did you mean until"),
        ("repeats: {most: 2, until: 1}", "repeats: most is 2, but must not be below least, 3"),
    ],
)
def test_an_error_names_the_invalid_file(
    conf: list[Path], extra: Path, text: str, message: str
) -> None:
    (extra / "experiment" / "mine.yaml").write_text(text)
    assert_error(message, load_experiment, "mine", conf)


NOT_IN_A_GRID = [
    (["rnn=keras,block"], "rnn: kears", r"compared.yaml: .*mean keras. the grids have rnn=b"),
    # A choice of conf/ whose name is part of one in the grids, but in no grid.
    (["rnn=keras", "rnn=block_cell"], "rnn: block", "not in any grid.*rnn=block_cell,keras"),
    (["rnn=unrolled"], "rnn: keras", "the grids have rnn=unrolled"),
    (["rnn=cell"], "build: tf_2_21", "the grids have build=current"),
    (["rnn=mine.yaml"], "rnn: main", "did you mean mine. the grids have rnn=mine"),
    (["model=mnist_mlp"], "dataset: digits", "the grids have dataset=mnist"),
    (
        ["rnn=keras +rnn.options.implementation=0,1"],
        "rnn: keras, rnn.options.implementation: 2",
        "has rnn.options.implementation=2, .* the grids have rnn.options.implementation=0,1",
    ),
    (["rnn=cell", "rnn=block device=cpu_2"], "rnn: cell, device: cpu_2", "no grid contains"),
]
IN_A_GRID = [
    (["rnn=block,keras"], "rnn: keras", None),
    (["model=adding"], "rnn: keras, device: cpu_1", None),  # defaults
    (["rnn=mine.yaml"], "rnn: mine", None),
    (["rnn=glob(c*)"], "rnn: cell", None),
    (["rnn=keras +rnn.options.activation=tanh,relu"], "rnn.options.activation: tanh", None),
]


@pytest.mark.parametrize(("grids", "reference", "message"), [*NOT_IN_A_GRID, *IN_A_GRID])
def test_a_reference_is_in_a_grid(
    conf: list[Path], extra: Path, grids: list[str], reference: str, message: str | None
) -> None:
    (extra / "experiment" / "mine.yaml").write_text(f"implementation: keras\n# {grids}")
    file = extra / "experiment" / "compared.yaml"
    file.write_text(f"reference: {{{reference}}}\ngrids: {grids}\n# kears.yaml, main.yaml\n")
    experiment = load_experiment("compared", conf)
    if message:
        assert_error(message, expand, experiment, conf)
    else:
        assert expand(experiment, conf)
        assert expand(experiment, conf, ["rnn=unrolled"]), "the command line may exclude it"


def test_a_reference_of_numbers_is_among_the_values_of_the_command_line(
    conf: list[Path], extra: Path
) -> None:
    file = extra / "experiment" / "modes.yaml"
    file.write_text(
        "reference: {rnn: keras, rnn.options.implementation: 1}\n"
        "grids: ['model=digits_rnn rnn=keras +rnn.options.implementation=1,2']\n"
    )
    modes = load_experiment("modes", conf)
    assert len(expand(modes, conf, ["+rnn.options.implementation=1,2"])) == 2
    assert len(expand(modes, conf, ["+rnn.options.implementation=2"])) == 1
    with pytest.raises(ConfigError, match="leaves out the reference") as caught:
        expand(modes, conf, ["+rnn.options.implementation=2,0"])
    command = caught.value.remedy.split()[1].rstrip(",")
    assert len(expand(modes, conf, [command])) == 3


@pytest.mark.parametrize("name", ["gpu", "gpu_first"])
def test_torch_takes_the_persistent_kernel_of_cudnn_where_it_is_asked_for(name: str) -> None:
    """In float16, and if features and units are multiples of 128."""
    folders = [ROOT / "conf"]
    points = expand(load_experiment(name, folders), folders, ["build=keras3_torch_cuda"])
    models = [
        point.config["model"]
        for point in points
        if point.config["precision"] == "mixed_float16"
        and point.config["model"].get("units") == 768
    ]
    assert len(models) > 1
    assert all(model["features"] % 128 == model["units"] % 128 == 0 for model in models)


@pytest.mark.parametrize("build", ["keras3_torch_cuda", "keras3_jax_cuda"])
def test_the_first_runs_on_a_card_certify_what_it_is_asked_for(build: str) -> None:
    """Each bundle of gpu_first begins with every implementation of the LSTM, at few epochs."""
    folders = [ROOT / "conf"]
    experiment = load_experiment("gpu_first", folders)
    points = expand(experiment, folders, [f"build={build}"])
    runs = [ordered.point for ordered in plan_order(points, True)]
    assert {point.choices["build"] for point in runs} == {build}
    assert {point.choices["device"] for point in runs} == {"gpu"}
    first = [point.choices["rnn"] for point in runs if point.choices["cell"] == "lstm"][:3]
    assert sorted(first) == ["cudnn", "keras", "native"]
    assert max(point.config["model"]["epochs"] for point in runs[:20]) <= 4
    assert 25 <= len(runs) <= 40
