"""``rnnbench compare --predict``: which runtime answers fastest with a model."""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, to_builtins

from rnnbench.builds.pins import build_named
from rnnbench.commands.arguments import (
    JSON,
    STANDARD_OUTPUT,
    Arguments,
    command_parser,
    folder_to_write,
    project_conf,
    write_numbers,
)
from rnnbench.datasets.pins import own_md5
from rnnbench.errors import ConfigError, RunError, say
from rnnbench.grid.experiment import Positive, known_runtimes
from rnnbench.grid.files import PYTHON_MODEL, SAVED_MODEL, check_own_code, file_of, name_of_choice
from rnnbench.grid.point import short_path
from rnnbench.grid.values import typed
from rnnbench.records.store import json_bytes
from rnnworker.options import SAVED
from rnnworker.precision import DEFAULT

if TYPE_CHECKING:
    from rnnbench.prediction.measure import Job
    from rnnbench.records.predictions import Results

BATCHES = (1, 8, 64)
WHERE = "compare --predict"
PREDICTED: Arguments = {
    "runtimes": {
        "nargs": "+",
        "metavar": "RUNTIME",
        "help": "two or more choices of conf/runtime, such as framework and onnxruntime, or "
        "FILE.yaml; the others are compared with the first",
    },
    "--predict": {"action": "store_true", "help": "compare runtimes, not training runs"},
    "--model": {
        "required": True,
        "metavar": "FILE.py:FUNCTION",
        "help": "a function that returns a Keras model, or FILE.keras, a saved model",
    },
    "--data": {
        "required": True,
        "metavar": "FILE",
        "help": "an .npz file with x_val, x_test, x_train or x, of which at most 64 samples count",
    },
    "--batch": {
        "default": ",".join(map(str, BATCHES)),
        "metavar": "SIZES",
        "help": "numbers of samples in a call, joined by commas (default: %(default)s)",
    },
    "--threads": {"type": int, "default": 1, "help": "of each runtime (default: %(default)s)"},
    "--rounds": {
        "type": int,
        "default": 5,
        "help": "each with new processes; the intervals are between rounds (default: %(default)s)",
    },
    "--build": {
        "default": "serving",
        "help": "the build with the runtimes, or its YAML file (default: %(default)s)",
    },
    "--json": JSON,
    "--out": {
        "type": folder_to_write,
        "metavar": "DIR",
        "help": "the folder to write the page into (default: one for the model in reports/)",
    },
    "--files": {
        "type": folder_to_write,
        "metavar": "DIR",
        "help": "keep the exported files in DIR",
    },
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a comparison asks its runtimes; see `job_of`."""

    runtimes: list[str]
    batches: Annotated[list[Positive], Meta(min_length=1)]
    threads: Positive
    rounds: Positive


def compare(arguments: Sequence[str]) -> int:
    """Compare how fast runtimes answer with a finished Keras model.

    Every runtime is first asked for batches of each size, for longer and shorter sequences and for
    masked ones if the model takes them, and for everything twice. One that answers wrongly or
    cannot carry the model is named with the reason and not timed. The others answer in turns.
    """
    options = command_parser(compare, PREDICTED).parse_intermixed_args(arguments)
    if options.files:
        options.files.mkdir(parents=True, exist_ok=True)
        return _compared(options, options.files.absolute(), arguments)
    with folder_of_exports() as folder:
        return _compared(options, folder, arguments)


@contextmanager
def folder_of_exports() -> Iterator[Path]:
    """A folder for exported files, which is removed unless a process failed: its log is there."""
    folder = Path(tempfile.mkdtemp(prefix="rnnbench-"))
    is_kept = False
    try:
        yield folder
    except RunError:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder)


def _compared(options: argparse.Namespace, folder: Path, arguments: Sequence[str]) -> int:
    from rnnbench.report.prediction import prediction_answers, section_of
    from rnnbench.report.terminal import print_view

    job = job_of(
        options.model,
        options.data,
        options.runtimes,
        _batches(options.batch),
        folder,
        threads=options.threads,
        rounds=options.rounds,
        build=options.build,
    )
    results, page = answered(job, shlex.join(["rnnbench", "compare", *arguments]), options.out)
    write_numbers(options.json, json_bytes(results).decode().rstrip())
    if options.json == STANDARD_OUTPUT:
        return 0
    section = section_of([results], None)
    for view in section.views:
        print_view(view)
    for answer in prediction_answers([results]):
        print(answer)
    print(f"\n{section.code}\n\nThe page: {page}")
    return 0


def job_of(
    model: str,
    data: str,
    runtimes: Sequence[str],
    batches: Sequence[int],
    folder: Path,
    *,
    threads: int,
    rounds: int,
    build: str = "serving",
) -> Job:
    """What to measure for a model of one's own. The project is the current folder.

    The arguments are the options of the command; `folder`: for the exported files. Raises
    `ConfigError`.
    """
    from rnnbench.grid.runtimes import runtimes_of
    from rnnbench.prediction.measure import Job

    given = {"runtimes": runtimes, "batches": batches, "threads": threads, "rounds": rounds}
    asked = typed(given, Asked, lambda key: WHERE, "write whole numbers.")
    from rnnbench.planning.planner import PREDICTED

    conf = project_conf(Path())
    config = {
        "model": _model(model),
        "rnn": {"implementation": "none"},
        "cell": {"name": "of_model"},
        "dataset": {"path": str(_existing(data))},
        "device": {"kind": "cpu", "threads": asked.threads},
        "build": to_builtins(build_named(build, conf, "--build")),
        "precision": DEFAULT,
        "seed": 0,
    }
    framework = config["build"]["framework"]
    if framework not in PREDICTED["build.framework"]:
        what = f"has {framework}; models are exported from Keras 3 on TensorFlow."
        remedy = "name a build with keras3_tensorflow and the runtimes, such as serving."
        raise ConfigError(what, where=f"--build {build}", remedy=remedy)
    check_own_code(config, lambda key: f"--model {model}")
    chosen = known_runtimes(asked.runtimes, conf, Path(), WHERE)
    return Job(
        config,
        runtimes_of(chosen, conf),
        sorted(set(asked.batches)),
        Path().absolute(),
        folder,
        asked.rounds,
    )


def answered(job: Job, rerun: str, out: Path | None) -> tuple[Results, Path]:
    """Measures, and writes the page. Returns the results and the path of the page.

    `rerun`: the command or call that measures it again; `out`: the folder of the page.
    """
    from rnnbench.prediction.results import measured

    results = measured(job, job.config["model"]["name"], say)
    file = job.config["model"].get("file") or job.function
    return results, _write_page(results, f"predict-{short_path(file)}", rerun, out)


def _write_page(results: Results, name: str, rerun: str, out: Path | None) -> Path:
    """Writes the page of a comparison, whose `name` tells models apart. Returns its path."""
    from rnnbench.records.plan_file import Experiment
    from rnnbench.report.content import Content
    from rnnbench.report.page import write_index, write_report
    from rnnbench.report.tables import ReportInputs

    experiment = Experiment(
        name=name,
        title=f"Runtimes that answer with {results.name}",
        about="",
        reference={},
        lead="predictions",
        rerun=rerun,
    )
    content = Content([], experiment, beside=ReportInputs(predictions=(results,)))
    folder = out or Path("reports") / experiment.name
    page = write_report(content, folder)[0]
    if out is None:
        write_index(folder.parent)
    return page


def _model(reference: str) -> dict[str, Any]:
    """The section of a config for a model, with the absolute path of its file."""
    if not PYTHON_MODEL.fullmatch(reference) and not reference.endswith(SAVED_MODEL):
        remedy = "name FILE.py:FUNCTION or FILE.keras."
        raise ConfigError("is not a model.", where=f"--model {reference}", remedy=remedy)
    file = file_of({}, "model", reference, WHERE, Path())
    section = {"name": name_of_choice(file), "function": str(file)}
    if file.suffix == SAVED_MODEL:
        section |= {"function": SAVED, "file": str(file), "md5": own_md5(file)}
    return section


def _existing(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ConfigError("no such file.", where=f"--data {text}", remedy="correct the path.")
    return path


def _batches(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.isdecimal() for size in sizes):
        remedy = "write numbers of samples, such as 1,8."
        raise ConfigError("is not a list of sizes.", where=f"--batch {text}", remedy=remedy)
    return [int(size) for size in sizes]
