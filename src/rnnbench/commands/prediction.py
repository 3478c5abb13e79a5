"""``rnnbench compare --predict``: which runtime answers fastest with a model."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rnnbench.commands.arguments import Arguments, command_parser, positive, project_conf
from rnnbench.errors import ConfigError, say, suggestion
from rnnbench.records.store import write_json
from rnnserve import NAMES

if TYPE_CHECKING:
    from rnnbench.prediction.results import Batch, Range, Results, Runtime

BATCHES = (1, 8, 64)
PREDICTED: Arguments = {
    "runtimes": {
        "nargs": "+",
        "metavar": "RUNTIME",
        "help": f"two or more of {', '.join(NAMES)}; the first one is compared with the others",
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
        return _compared(options, options.files.absolute())
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        return _compared(options, Path(folder))


def _compared(options: argparse.Namespace, folder: Path) -> int:
    from rnnbench.prediction.measure import Job, measure
    from rnnbench.prediction.results import results_of

    job = Job(
        model=_model(options.model),
        data=_existing(options.data, "--data"),
        runtimes=_runtimes(options.runtimes),
        batches=_batches(options.batch),
        threads=int(positive(str(options.threads))),
        build=_build(options.build),
        root=Path().absolute(),
        folder=folder,
        rounds=int(positive(str(options.rounds))),
    )
    prepared, outcomes = measure(job, say)
    results = results_of(job, prepared, outcomes)
    if options.json:
        write_json(Path(options.json), results)
    print_results(results)
    return 0


def _model(reference: str) -> str:
    """The model with the absolute path of its file."""
    path, colon, function = reference.partition(".py:")
    if colon:
        return f"{_existing(f'{path}.py', '--model')}:{function}"
    if reference.endswith(".keras"):
        return str(_existing(reference, "--model"))
    remedy = "name FILE.py:FUNCTION or FILE.keras."
    raise ConfigError("is not a model.", where=f"--model {reference}", remedy=remedy)


def _existing(text: str, flag: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ConfigError("no such file.", where=f"{flag} {text}", remedy="correct the path.")
    return path


def _runtimes(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in NAMES:
            remedy = f"{suggestion(name, NAMES)}use {', '.join(NAMES)}."
            raise ConfigError(f"no runtime {name!r}.", where="compare --predict", remedy=remedy)
    found = list(dict.fromkeys(names))
    if len(found) < 2:
        remedy = "name two or more."
        raise ConfigError("one runtime is no comparison.", where="compare", remedy=remedy)
    return found


def _batches(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.isdigit() and int(size) > 0 for size in sizes):
        remedy = "write numbers of samples, such as 1,8."
        raise ConfigError("is not a list of sizes.", where=f"--batch {text}", remedy=remedy)
    return sorted({int(size) for size in sizes})


def _build(name: str) -> dict[str, Any]:
    """The section of a build, from conf/build or from a file."""
    files = [Path(name)]
    if not name.endswith((".yaml", ".yml")):
        files = [conf / "build" / f"{name}.yaml" for conf in project_conf(Path())]
    for file in files:
        if file.is_file():
            section = yaml.safe_load(file.read_text(encoding="utf-8"))
            return {"name": file.stem, **section}
    raise ConfigError("no such build.", where=f"--build {name}", remedy="name one of conf/build.")


def print_results(results: Results) -> None:
    """Prints the tables, what was refused or unequal, the answer and the lines that serve it."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)

    def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        made = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
        made.add_column(heads[0], no_wrap=True)
        for head in heads[1:]:
            made.add_column(head, justify="right", no_wrap=True)
        for row in rows:
            made.add_row(*row)
        console.print(made)

    timed = [runtime for runtime in results.runtimes if runtime.batches]
    times = "times as fast (95 % CI)"
    heads = ["ms per call", "mean", "median", "95 %", "99 %", times, "samples/s", "CPU"]
    for number, fastest in enumerate(results.fastest):
        rows = [_speed_row(runtime.name, runtime.batches[number]) for runtime in timed]
        table(samples(fastest.batch), heads, rows)

    heads = ["", "largest difference", "load, s", "file, kB", "peak memory, MB"]
    table("equal outputs", heads, [_facts_row(runtime) for runtime in timed])
    for line in remarks(results):
        print(line)
    for line in answer(results):
        print(line)


def samples(batch: int) -> str:
    return "one sample" if batch == 1 else f"{batch} samples"


def _speed_row(name: str, batch: Batch) -> list[str]:
    ratio = "–"
    if batch.ratio is not None:
        ratio = _ratio(batch.ratio)
    return [
        name,
        _milliseconds(batch.seconds.estimate),
        _milliseconds(batch.p50),
        _milliseconds(batch.p95),
        _milliseconds(batch.p99),
        ratio,
        f"{batch.samples_per_second:.3g}",
        _milliseconds(batch.cpu_seconds),
    ]


def _facts_row(runtime: Runtime) -> list[str]:
    return [
        runtime.name,
        f"{runtime.difference:.1e}",
        f"{runtime.load_seconds:.2g}",
        f"{(runtime.file_bytes or 0) / 1000:.4g}",
        f"{(runtime.peak_bytes or 0) / 1e6:.3g}",
    ]


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.3g}"


def _ratio(ratio: Range) -> str:
    text = f"{ratio.estimate:.3g}"
    if ratio.low is not None and ratio.high is not None:
        text += f" ({ratio.low:.3g} to {ratio.high:.3g})"
    return text


def remarks(results: Results) -> list[str]:
    """What was refused or unequal, and what distorts a number."""
    lines = []
    for runtime in results.runtimes:
        if runtime.refused:
            lines.append(f"{runtime.name}: refused: {runtime.refused}")
        elif runtime.unequal:
            lines.append(f"{runtime.name}: ≠, not timed: {runtime.unequal}")
        for note in runtime.notes:
            lines.append(f"{runtime.name}: {note}")
    return lines


def answer(results: Results) -> list[str]:
    """The fastest runtime for each size of batch, and the lines that serve with it."""
    if not results.fastest:
        return ["No runtime gave the right answers, so nothing was timed."]
    lines = []
    by_name = {runtime.name: runtime for runtime in results.runtimes}
    for fastest in results.fastest:
        runtime = by_name[fastest.runtime]
        batch = next(each for each in runtime.batches if each.batch == fastest.batch)
        text = f"For {samples(fastest.batch)}, {runtime.name} answers in "
        text += f"{_milliseconds(batch.seconds.estimate)} ms"
        if batch.ratio is not None:
            text += f", {_ratio(batch.ratio)} times as fast as {results.compared_with}"
        if fastest.also:
            text += f"; no difference shown to {', '.join(fastest.also)}"
        lines.append(f"{text}.")
    unequal = [runtime.name for runtime in results.runtimes if runtime.unequal]
    said = f"What was timed computes the same function, by {results.reference}"
    if unequal:
        said += f"; {', '.join(unequal)} {'does' if len(unequal) == 1 else 'do'} not"
    lines.append(f"{said}.")
    first = by_name[results.fastest[0].runtime]
    lines += ["", f"# {first.name}", *(first.code or "").splitlines()]
    return lines
