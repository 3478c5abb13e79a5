"""``rnnbench compare --predict``: which runtime answers fastest with a model."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from rnnbench.builds.pins import build_named
from rnnbench.commands.arguments import Arguments, command_parser, positive, project_conf
from rnnbench.datasets.pins import own_md5
from rnnbench.errors import ConfigError, say
from rnnbench.grid.experiment import known_runtimes
from rnnbench.records.store import write_json
from rnnworker.options import SAVED
from rnnworker.precision import DEFAULT

if TYPE_CHECKING:
    from rnnbench.prediction.measure import Job
    from rnnbench.records.predictions import Results

BATCHES = (1, 8, 64)
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
    "--json": {"metavar": "FILE", "help": "write the results to FILE"},
    "--out": {
        "type": Path,
        "metavar": "DIR",
        "help": "the folder to write the page into (default: reports/predict-MODEL)",
    },
    "--files": {"type": Path, "metavar": "DIR", "help": "keep the exported files in DIR"},
}


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
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        return _compared(options, Path(folder), arguments)


def _compared(options: argparse.Namespace, folder: Path, arguments: Sequence[str]) -> int:
    from rnnbench.report.prediction import prediction_answers, section_of
    from rnnbench.report.terminal import print_view

    job = job_of(
        options.model,
        options.data,
        options.runtimes,
        _batches(options.batch),
        folder,
        threads=int(positive(str(options.threads))),
        rounds=int(positive(str(options.rounds))),
        build=options.build,
    )
    results, page = answered(job, shlex.join(["rnnbench", "compare", *arguments]), options.out)
    if options.json:
        write_json(Path(options.json), results)
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

    conf = project_conf(Path())
    config = {
        "model": _model(model),
        "rnn": {"implementation": "none"},
        "cell": {"name": "of_model"},
        "dataset": {"path": str(_existing(data, "--data"))},
        "device": {"kind": "cpu", "threads": threads},
        "build": to_builtins(build_named(build, conf, "--build")),
        "precision": DEFAULT,
        "seed": 0,
    }
    chosen = known_runtimes(runtimes, conf, Path(), "compare --predict")
    return Job(
        config,
        runtimes_of(chosen, conf),
        batches,
        Path().absolute(),
        folder,
        rounds,
    )


def answered(job: Job, rerun: str, out: Path | None) -> tuple[Results, Path]:
    """Measures, and writes the page. Returns the results and the path of the page.

    `rerun`: the command or call that measures it again; `out`: the folder of the page.
    """
    from rnnbench.prediction.results import measured

    results = measured(job, job.config["model"]["name"], say)
    return results, _write_page(results, rerun, out)


def _write_page(results: Results, rerun: str, out: Path | None) -> Path:
    """Writes the page of a comparison. Returns its path."""
    from rnnbench.records.plan_file import Experiment
    from rnnbench.report.content import Content
    from rnnbench.report.page import write_index, write_report
    from rnnbench.report.tables import ReportInputs

    experiment = Experiment(
        name=f"predict-{results.name}",
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
    path, colon, function = reference.partition(".py:")
    if colon:
        file = _existing(f"{path}.py", "--model")
        return {"name": f"{file.stem}-{function}", "function": f"{file}:{function}"}
    if reference.endswith(".keras"):
        file = _existing(reference, "--model")
        saved = {"function": SAVED, "file": str(file), "md5": own_md5(file)}
        return {"name": file.stem, **saved}
    remedy = "name FILE.py:FUNCTION or FILE.keras."
    raise ConfigError("is not a model.", where=f"--model {reference}", remedy=remedy)


def _existing(text: str, flag: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ConfigError("no such file.", where=f"{flag} {text}", remedy="correct the path.")
    return path


def _batches(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.isdigit() and int(size) > 0 for size in sizes):
        remedy = "write numbers of samples, such as 1,8."
        raise ConfigError("is not a list of sizes.", where=f"--batch {text}", remedy=remedy)
    return sorted({int(size) for size in sizes})
