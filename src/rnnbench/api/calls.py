"""The functions that a program calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import chdir
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rnnbench.api.arrays import file_of_data
from rnnbench.api.source import file_of_function
from rnnbench.commands.arguments import folder_to_write, name_of
from rnnbench.commands.prediction import answered, folder_of_exports, job_of
from rnnbench.commands.question import asked, measured
from rnnbench.commands.report import folders_at, read_found
from rnnbench.errors import ConfigError, say
from rnnbench.project import SOURCE, check_project, is_project
from rnnbench.records.report_files import PAGE
from rnnbench.records.store import write_bytes

if TYPE_CHECKING:
    from rnnbench.report.comparison import Comparison
    from rnnbench.report.prediction import Prediction

CALLS = RLock()
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


SNAKEFILE = """module rnnbench:
    snakefile: "{}"
    config: config

use rule * from rnnbench
"""


def _alone(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """One call at a time: the current folder, which a call changes, is that of all threads."""

    @wraps(call)
    def called(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with CALLS:
            return call(*arguments, **named)

    return called


@_alone
def compare(
    build: Callable[..., Any] | str | Path,
    data: Any = None,
    implementations: Sequence[str] = ("keras", "block"),
    budget: float = 60.0,
    *,
    loss: str | None = None,
    optimizer: str | None = None,
    overrides: Sequence[str] = (),
    project: str | Path | None = None,
) -> Comparison:
    """Measures which implementation trains a model fastest, and whether all of them compute the
    same function. Prints its progress. What was measured before is not measured again.

    - `build`: a function that returns a Keras model: of a Python file, or of a notebook or the
      program that runs, whose source is then taken with what it needs. Or, as for the command
      ``rnnbench compare --model``, ``"mine.py:build"`` or the path of a ``.keras`` file.
    - `data`: the path of an ``.npz`` file; a dict of the arrays ``x_train``, ``y_train``, ``x_val``
      and ``y_val``; ``(x, y)``, of whose samples the last fifth is for validation; or
      ``((x_train, y_train), (x_val, y_val))``. The first dimension of each array is samples. None
      if `overrides` name a dataset, such as ``"dataset=digits"``.
    - `implementations`: two or more choices of one axis, such as ``keras``, ``block``,
      ``unrolled`` or, for devices, ``cpu_1`` and ``cpu_2``; or paths of YAML files. Speed-ups are
      relative to the first.
    - `budget`: how long to measure, in seconds, after the certificate.
    - `loss`, `optimizer`: if `build` does not compile the model: the name of a loss or
      ``"mine.py:loss"``, and the name of an optimizer.
    - `overrides`: Hydra overrides of the experiment, such as ``"model.batch=64"``. Files that they
      name are relative to the project's folder.
    - `project`: the folder with the results. Without it, the current folder or one above it that is
      a project, such as a checkout of rnnbench. A folder that does not exist is made.

    Raises `RnnbenchError` with the text that the command prints. The current folder is another one
    until it returns; a call in another thread waits for it.
    """
    folder = _project(project)
    kept = folder / "results" / "compare"
    question = asked(
        lambda key: "rnnbench.compare",
        implementations=_listed(implementations, _named),
        model=file_of_function(build, kept),
        data=None if data is None else file_of_data(data, kept),
        loss=_named(loss),
        optimizer=optimizer,
        overrides=_listed(overrides, _plain),
        budget=_plain(budget),
    )
    with chdir(folder):
        name, _ = measured(question, Path())
    return load(name, project=folder)


def _listed(given: Any, each: Callable[[Any], Any]) -> Any:
    """A list of what `each` makes of its values, of which a single text needs none. Anything else,
    which is refused, as it is."""
    given = _plain(given)
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Set):
        return str(given)  # msgspec takes a set, whose order is any, for a list
    return list(map(each, given)) if isinstance(given, Sequence) else given


def _plain(given: Any) -> Any:
    """A value without NumPy, or a text."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    return str(given) if isinstance(given, Path) else given


def _named(given: Any) -> Any:
    """A name, or the absolute path of a file, because the current folder changes."""
    given = _plain(given)
    is_file = isinstance(given, str) and (".py:" in given or given.endswith((".yaml", ".yml")))
    return str(Path(given).expanduser().absolute()) if is_file else given


@_alone
def predict(
    build: Callable[..., Any] | str | Path,
    data: Any,
    runtimes: Sequence[str] = ("framework", "onnxruntime_operator", "litert"),
    batches: Sequence[int] = (1, 8, 64),
    *,
    threads: int = 1,
    rounds: int = 5,
    project: str | Path | None = None,
) -> Prediction:
    """Measures which runtime answers fastest with a model, and whether it still computes the same
    function. Prints its progress.

    - `build`, `project`: as in `compare`.
    - `data`: the path of an ``.npz`` file, or a dict of arrays, with the samples that are asked,
      ``x_val`` or ``x``; for several inputs ``x.NAME``.
    - `runtimes`: two or more choices of ``conf/runtime``, or paths of YAML files; ratios are
      relative to the first.
    - `batches`: numbers of samples in a call; `threads`: of each runtime; `rounds`: each with new
      processes.

    Raises `RnnbenchError` with the text that the command prints. The current folder is another one
    until it returns; a call in another thread waits for it.
    """
    from rnnbench.report.prediction import Prediction

    folder = _project(project)
    kept = folder / "results" / "compare"
    model = file_of_function(build, kept)
    file = file_of_data(data, kept)
    chosen = _listed(runtimes, _named)
    with chdir(folder), folder_of_exports() as exported:
        job = job_of(
            model,
            file,
            chosen,
            _listed(batches, _plain),
            exported,
            threads=_plain(threads),
            rounds=_plain(rounds),
        )
        names = ", ".join(map(repr, chosen))
        results, page = answered(job, f"rnnbench.predict({model!r}, {file!r}, [{names}])", None)
    return Prediction(results, folder / page)


@_alone
def load(experiment: str | Path, *, project: str | Path | None = None) -> Comparison:
    """Reads what was measured of an experiment.

    - `experiment`: its name, with overrides such as ``quick+model.epochs=3``, or the path of its
      YAML file.
    - `project`: the folder with the results; see `compare`.

    Says which files cannot be read. Raises `RnnbenchError` if nothing was measured.
    """
    from rnnbench.report.comparison import Comparison
    from rnnbench.report.tables import ReportInputs, Tables
    from rnnbench.tables.certificates import certificates_of

    folder = Path(project).expanduser().absolute() if project else _project(None)
    check_project(folder)
    name = name_of(str(experiment))
    with chdir(folder):
        results = Path("results")
        folders = folders_at(results, name)
        found = read_found(folders)
        certificates, unreadable = certificates_of(folders, found.records, results)
        for fault in found.faults + unreadable:
            say(f"left out: {fault}")
        inputs = ReportInputs(certificates=certificates)
        tables = Tables(found.records, found.experiment, inputs)
    page = folder / "reports" / name / PAGE
    return Comparison(tables, page if page.is_file() else None)


def _project(given: str | Path | None) -> Path:
    """The project's folder: the `given` one, which is made a project, or the current folder or one
    above it. Raises `ConfigError` if there is none."""
    if given is None:
        here = Path.cwd()
        for folder in (here, *here.parents):
            if is_project(folder):
                return folder
        raise ConfigError(
            "neither this folder nor one above it is a project of rnnbench, where results are "
            "kept.",
            where=str(here),
            remedy='say where to keep them: project="speed"; a folder that does not exist is made.',
        )
    folder = folder_to_write(given).absolute()
    if not is_project(folder):
        text = SNAKEFILE.format(SOURCE / "workflow/Snakefile")
        write_bytes(folder / "Snakefile", text.encode())
    return folder
