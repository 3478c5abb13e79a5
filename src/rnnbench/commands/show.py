"""The commands that print what was measured: `show` and `compare`."""

from __future__ import annotations

import argparse
import fnmatch
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.commands.arguments import (
    RESULTS,
    Arguments,
    command_parser,
    overrides_of,
    positive,
    project_conf,
)
from rnnbench.errors import ConfigError, display_path, say, suggestion
from rnnbench.project import SETTINGS, settings
from rnnbench.records.rounds import records_of
from rnnbench.records.store import (
    imported_machines,
    planned_folders,
    read_json,
    read_record,
    record_files,
    roots,
    site_folders,
    write_json,
)

if TYPE_CHECKING:
    from rnnbench.records.record import Record
    from rnnbench.report.numbers import Row
    from rnnbench.tables.certificates import Certificates


def show(arguments: Sequence[str]) -> int:
    """Show the newest record of a run: verdict, phases, epochs and provenance."""
    declared: Arguments = {
        "run": {
            "help": "the name of a run, a pattern that matches one run, or the path of a record",
        },
        "--results": RESULTS,
    }
    options = command_parser(show, declared).parse_args(arguments)

    from rnnbench.report.terminal import print_run

    path = Path(options.run)
    if path.suffix != ".json":
        path = _newest(options.results, options.run)
    print_run(read_record(path), str(path))
    return 0


def _newest(results: Path, pattern: str) -> Path:
    """The newest record of the only run that matches the `pattern`, preferably no companion."""
    if "/" in pattern:
        raise ConfigError(f"{pattern!r} is not a run's name.", where="show")

    files = []
    for root in roots(results):
        files += record_files(root, name=pattern)
    names = {path.parent.name for path in files}
    if not names:
        raise ConfigError(
            f"there is no record of {pattern!r} in {results}/records.",
            where="show",
            remedy="`rnnbench grid EXPERIMENT` prints the names.",
        )
    if len(names) > 1:
        few = ", ".join(sorted(names)[:4])
        raise ConfigError(
            f"{pattern!r} matches {len(names)} runs: {few}, …",
            where="show",
            remedy="name one of them.",
        )

    files.sort(key=attrgetter("name"), reverse=True)
    for path in files:
        if not read_record(path).is_companion:
            return path
    return files[0]


def compare(arguments: Sequence[str]) -> int:
    """Compare the time per epoch of runs A and runs B, with a confidence interval.

    A and B select runs by terms joined with commas: a choice (keras, cpu_2, tf_1_15), a machine,
    an override (units=512) or a pattern of run names (digits_*-unrolled-*). Configurations that
    differ only in what A and B name are paired. If a certificate says that the functions of a pair
    differ, their times have a ratio marked ≠, which is not a speed-up.

    With --model, --data, KEY=VALUE or --budget, the choices A and B are first measured in turns;
    runs that have a record are not measured again. A choice may be the path of a YAML file. The
    exit code is 1 if the condition of --fail-if is shown to hold, and 2 if no pair has an interval
    that could show it. With --predict, runtimes are compared: `rnnbench compare --predict --help`.
    """
    if "--predict" in arguments:
        from rnnbench.commands import prediction

        return prediction.compare(arguments)
    options = _compare_options(arguments)
    from rnnbench.report.notes import session_notes, turn_notes
    from rnnbench.report.terminal import print_answers, print_comparison
    from rnnbench.tables.comparison import selected, versus, void_messages
    from rnnbench.tables.estimates import Measurements
    from rnnbench.tables.frame import tidy

    limit = _condition(options.fail_if, options.a, options.b)
    if of_a_model(options) or options.overrides or options.budget:
        options.experiment = _measured(options)
    records, certificates = read_certified(options.results, options.experiment, options.site)
    if not records:
        raise _no_records(options)

    frame = tidy(records)
    a = options.a.split(",")
    b = options.b.split(",")
    measured = Measurements(frame, certificates=certificates)
    table = versus(measured, a, b)
    void = void_messages(frame, a, b)
    if table.empty:
        runs = frame[frame["phase"] == "run"]
        unknown = [terms for terms in (a, b) if selected(runs, terms).empty]
        raise _no_pair(options, unknown, void)

    with_interval = table.dropna(subset=["low", "high"])
    text = table.drop(columns="unequal").to_json(orient="records", indent=2)
    if options.json == "-":
        print(text)
    else:
        if options.json:
            Path(options.json).write_text(f"{text}\n")
        print_comparison(table, options.a, options.b)
        lines: list[str] = []
        if not with_interval.empty:
            runs = selected(measured.runs, a, b)
            lines += session_notes(runs, {record.key: record.finished for record in records})
            if options.experiment != "*":  # runs of other experiments may be in no pair
                lines += turn_notes(runs)
        lines += void
        for line in dict.fromkeys(lines):
            print(line)
        print_answers(table)

    if limit is None:
        return 0
    return _exit_code(limit, with_interval.to_dict("records"), options.fail_if)


def _exit_code(limit: Callable[[Row], bool], rows: Sequence[Row], condition: str) -> int:
    """1 if a pair is shown to be beyond the limit of `--fail-if`. `rows`: the pairs of the table of
    `versus` with an interval."""
    if not rows:
        raise ConfigError(
            f"no pair has an interval, so {condition!r} is neither shown nor excluded.",
            where="--fail-if",
            remedy="measure at least two rounds of two choices that compute the same function.",
        )
    failed = any(limit(row) for row in rows)
    if failed:
        say(f"--fail-if: {condition!r} holds.")
    return int(failed)


COMPARED: Arguments = {
    "a": {"help": "the terms of A, such as unrolled or unrolled,cpu_2"},
    "b": {"help": "the terms of B, such as keras"},
    "overrides": {
        "nargs": "*",
        "default": [],
        "metavar": "KEY=VALUE",
        "help": "measure with these Hydra overrides",
    },
    "--model": {
        "metavar": "FILE.py:FUNCTION",
        "help": "a function that returns a Keras model, or FILE.keras, a saved model (model=…)",
    },
    "--data": {
        "metavar": "FILE",
        "help": "its data: an .npz file with x_train, y_train, x_val and y_val "
        "(dataset=file dataset.path=…)",
    },
    "--loss": {
        "metavar": "NAME|FILE.py:FUNCTION",
        "help": "the loss, if the function does not compile the model (model.loss=…)",
    },
    "--optimizer": {
        "metavar": "NAME",
        "help": "the optimizer, if the function does not compile the model "
        "(model.optimizer={name:…})",
    },
    "--budget": {
        "type": positive,
        "metavar": "MINUTES",
        "help": "how long to measure, after the certificate (default: 1)",
    },
    "--json": {
        "metavar": "FILE",
        "help": "write the table to FILE, or to standard output if FILE is -",
    },
    "--fail-if": {
        "metavar": "CONDITION",
        "help": "such as 'unrolled<1.2': fail if the whole interval of the speed-up of `unrolled` "
        "is below 1.2",
    },
    "--experiment": {"default": "*", "help": "only this experiment (default: all)"},
    "--site": {"default": "*", "help": "only this site (default: all)"},
    "--results": RESULTS,
}


def _compare_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of `compare`, whose files exist or can be written. `choices` are A and B as they
    were given, perhaps as files; `a` and `b` are their names."""
    parser = command_parser(compare, COMPARED)
    options = parser.parse_intermixed_args(arguments)
    for choice in (options.a, options.b):
        if _is_file(choice) and not Path(choice).is_file():
            raise ConfigError("no such file.", where=choice, remedy="correct the path.")

    for flag, given in (("--model", options.model), ("--data", options.data)):
        file = Path((given or "").partition(".py:")[0] + (".py" if ".py:" in (given or "") else ""))
        if given and not file.expanduser().exists():
            raise ConfigError("no such file.", where=f"{flag} {given}", remedy="correct the path.")

    table_file = Path(options.json or "-").resolve()
    if table_file.is_dir() or not table_file.parent.is_dir():
        raise ConfigError(
            "is not a file in an existing folder.",
            where=f"--json {options.json}",
            remedy="correct the path or make the folder.",
        )

    options.choices = [options.a, options.b]
    if _is_file(options.a):
        options.a = Path(options.a).stem
    if _is_file(options.b):
        options.b = Path(options.b).stem
    return options


def _no_records(options: argparse.Namespace) -> ConfigError:
    """What to say instead of a comparison without any records."""
    known = {folder.name for folder in planned_folders(options.results, "*", options.site)}
    if not known or fnmatch.filter(known, options.experiment):
        remedy = "run snakemake, or add --budget 1, which measures A and B."
        return ConfigError("has no records.", where=str(options.results), remedy=remedy)
    from rnnbench.report.numbers import few

    names = few(sorted(known, key=len), 4, ", ")
    return ConfigError(
        "there is no such experiment with results.",
        where=f"--experiment {options.experiment}",
        remedy=f"{suggestion(options.experiment, known)}measured are {names}.",
    )


def _no_pair(
    options: argparse.Namespace,
    unknown: Sequence[Sequence[str]],
    void: Sequence[str],
) -> ConfigError:
    """What to say instead of a comparison without any pair.

    - `unknown`: the terms that match no measured run.
    - `void`: a message for each void run that A and B select.
    """
    what = f"no run of {options.a!r} equals a run of {options.b!r} in everything else."
    remedy = "name what differs: a choice, a machine, key=value or a pattern of run names."
    if unknown:
        what = f"no measured run matches {','.join(unknown[-1])!r}."
        remedy = "correct it, or add --budget 1, which measures A and B."

    if void:
        what += f" {'; '.join(void)}."
        remedy = "see `rnnbench show RUN`; `rnnbench retry EXPERIMENT` measures them again."
    return ConfigError(what, where="compare", remedy=remedy)


def of_a_model(options: argparse.Namespace) -> list[str]:
    """The Hydra overrides that the options for a model stand for, with absolute paths."""
    overrides = []
    if options.model:
        path = Path(options.model).expanduser().absolute()
        overrides.append(f"model={path}")

    if options.data:
        path = Path(options.data).expanduser().absolute()
        overrides += ["dataset=file", f"dataset.path={path}"]
    if options.loss:
        loss = options.loss
        if ".py:" in loss:
            loss = Path(loss).expanduser().absolute()
        overrides.append(f"model.loss={loss}")
    if options.optimizer:
        overrides.append(f"model.optimizer={{name:{options.optimizer}}}")
    return overrides


def _condition(text: str | None, a: str, b: str) -> Callable[[Row], bool] | None:
    """Whether a row of `versus` shows the condition ``NAME<FACTOR`` or ``NAME>FACTOR``, on the
    speed-up of A over B or of B over A: whether its whole interval fulfils it."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(.+?)\s*([<>])\s*(\d+(?:\.\d+)?)\s*", text)
    if match is None or match[1] not in (a, b):
        raise ConfigError(
            f"{text!r} is no condition.",
            where="--fail-if",
            remedy=f"write '{a}<1.2' or '{b}>1.5', in quotes.",
        )

    name, sign, number = match.groups()
    factor = float(number)

    def holds(row: Row) -> bool:
        low = row["low"]
        high = row["high"]
        if name == b:
            low = 1 / row["high"]
            high = 1 / row["low"]
        if sign == "<":
            return bool(high < factor)
        return bool(low > factor)

    return holds


def _is_file(choice: str) -> bool:
    """Whether a choice is the path of a file of the user."""
    return choice.endswith((".yaml", ".yml"))


def _measured(options: argparse.Namespace) -> str:
    """Measures A and B in turns and returns the experiment's name."""
    selected = [options.experiment, options.site, options.results]
    if selected != ["*", "*", Path("results")]:
        raise ConfigError(
            "--experiment, --site and --results choose among what is measured already.",
            where="compare",
            remedy="leave them out, or leave out KEY=VALUE and --budget.",
        )
    from rnnbench.grid.expand import expand
    from rnnbench.grid.experiment import load_experiment, varied

    root = Path.cwd()
    conf = project_conf(root)
    budget = options.budget or 1.0
    file = _write_experiment(options, conf, 60 * budget)

    # Both would otherwise come from the project's settings.
    overrides = options.overrides or overrides_of(settings(root), str(SETTINGS))
    command = [sys.executable, "-m", "rnnbench", "run", str(file), *overrides]
    command += ["--budget", repr(budget)]
    command.append("--allow-void")  # the comparison says why they are void

    def measure(command: Sequence[str]) -> None:
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode:
            raise ConfigError(
                f"{options.a} and {options.b} could not be measured.",
                where="compare",
                remedy="see the messages above.",
            )

    experiment = load_experiment(str(file), conf)
    try:
        expand(experiment, conf, overrides, root=root)
    except ConfigError as error:
        # The user wrote no such file.
        if error.where.startswith(display_path(file)):
            error.where = "command line"
        raise
    name = varied(experiment, overrides).name
    measure([*command, "--", "--until", "certify"])
    _check_can_be_compared(name, options.results)
    measure(command)
    return name


def _write_experiment(options: argparse.Namespace, conf: Sequence[Path], seconds: float) -> Path:
    """The file of the experiment that measures A and B for so many `seconds`. It is kept, because
    the page names the command that measures it again."""
    from rnnbench.grid.files import name_of_choice
    from rnnbench.grid.point import short_path

    title = f"{options.a} against {options.b}"
    if options.model:
        title += f" in {name_of_choice(Path(options.model))}"

    axis = _axis_of(options.choices, conf)
    values = []
    for choice in options.choices:
        if _is_file(choice):
            choice = str(Path(choice).resolve())
        values.append(choice)

    # A round takes five seconds or more; one that is not needed takes a second all the same.
    most = max(3, min(30, int(seconds / 5)))
    experiment = {
        "title": title,
        "grids": [[f"{axis}={','.join(values)}", *of_a_model(options)]],
        "reference": {axis: options.a},
        "repeats": {"least": 3, "most": most, "until": 0.02, "budget_s": seconds},
    }

    parts = sorted([options.a, options.b])
    for path in filter(None, [options.model, options.data]):
        parts.append(short_path(str(Path(path).absolute())))
    parts += filter(None, [options.loss, options.optimizer])
    file: Path = options.results / "compare" / f"{'-'.join(parts)}.yaml"
    write_json(file, experiment)  # JSON is YAML
    return file


def _check_can_be_compared(experiment: str, results: Path) -> None:
    """Raises a `ConfigError` if a certificate says that one of the two refuses the model, or that
    neither can be built: measuring the other one would answer nothing."""
    from rnnbench.sources.certificates import certificate_of

    folders = planned_folders(results, experiment)
    folder = max(folders, key=lambda each: (each / "plan.jsonl").stat().st_mtime)  # of this site
    for key in read_json(folder / "certificates.json"):
        file = folder / "certificates" / f"{key}.json"
        certificate = certificate_of(read_json(file), str(file))
        entries = certificate.implementations
        statuses = [each.status for each in entries.values()]
        none_can = len(entries) > 1 and "certified" not in statuses
        for name, each in entries.items():
            if each.status == "refused" or none_can:
                raise ConfigError(
                    f"{name} cannot compute {certificate.model}: {str(each.why).rstrip('.?')}.",
                    where="compare",
                    remedy="change the model there, or compare implementations that can.",
                )


def _axis_of(choices: Sequence[str], conf: Sequence[Path]) -> str:
    """The axis that has all `choices` that are not files; two files are two kernels."""
    from rnnbench.axes import NAMES
    from rnnbench.grid.files import files_of

    named = [choice for choice in choices if not _is_file(choice)]
    if not named:
        return "rnn"

    every: set[str] = set()
    for axis in NAMES:
        known = files_of(conf, axis).keys()
        if known >= set(named):
            return axis
        every |= known

    remedy = f"name two files of conf/AXIS/ or your own; axes are {', '.join(NAMES)}."
    for choice in reversed(named):
        if choice not in every:
            remedy = suggestion(choice, every) + remedy
    raise ConfigError(
        f"{' and '.join(choices)} are not two choices of one axis.",
        where="compare",
        remedy=remedy,
    )


def read_certified(
    results: Path,
    experiment: str = "*",
    site: str = "*",
) -> tuple[list[Record], Certificates]:
    """All records of the experiments at the sites, judged by their certificates, and these. Says
    which files cannot be read.

    `experiment`, `site`: patterns of their names.
    """
    from rnnbench.sources.certificates import read_certificates
    from rnnbench.tables.certificates import Certificates

    folders = site_folders(results, experiment, site)
    records, faults = records_of(folders)
    every, unreadable = read_certificates(folder / "certificates" for folder in folders)
    for fault in faults + unreadable:
        say(fault)

    certificates = Certificates(every, tuple(records), imported_machines(results))
    return certificates.mark_wrong_gradients(records), certificates
