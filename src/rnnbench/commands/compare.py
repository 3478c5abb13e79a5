"""The command that compares what was measured, or measures it first: `compare`."""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rnnbench.commands.arguments import (
    JSON,
    RESULTS,
    STANDARD_OUTPUT,
    Arguments,
    command_parser,
    positive,
    refuse_multirun,
    write_numbers,
)
from rnnbench.commands.question import Question, asked, measured, of_a_model
from rnnbench.errors import ConfigError, say, suggestion
from rnnbench.records.rounds import records_of
from rnnbench.records.store import planned_folders, site_folders

if TYPE_CHECKING:
    from rnnbench.records.record import Record
    from rnnbench.tables.certificates import Certificates
    from rnnbench.tables.estimates import Measurements


def compare(arguments: Sequence[str]) -> int:
    """Compare the time per epoch of runs A with that of runs B, C, …, with confidence intervals.

    A, B, … select runs by terms joined with commas: a choice (keras, cpu_2, tf_1_15), a machine,
    an override (units=512) or a pattern of run names (digits_*-unrolled-*). Configurations that
    differ only in what they name are paired. If a certificate says that the functions of a pair
    differ, their times have a ratio marked ≠, which is not a speed-up.

    With --model, --data, KEY=VALUE or --budget, the choices A, B, … are first measured in turns;
    runs that have a record are not measured again. A choice may be the path of a YAML file. The
    exit code is 1 if the condition of --fail-if is shown to hold, and 2 if no pair has an interval
    that could show it. With --predict, runtimes are compared: `rnnbench compare --predict --help`.
    """
    if "--predict" in arguments:
        from rnnbench.commands import prediction

        return prediction.compare(arguments)
    options, question = _compare_options(arguments)
    from rnnbench.report.notes import session_notes, turn_notes
    from rnnbench.report.page import as_text
    from rnnbench.report.terminal import print_answers, print_comparison
    from rnnbench.tables.comparison import selected, versus_each, void_messages
    from rnnbench.tables.estimates import Measurements
    from rnnbench.tables.frame import tidy

    names = question.names
    limit = _limit(options.fail_if, names) if options.fail_if is not None else None
    page = None
    if of_a_model(question) or question.overrides or options.budget:
        selection = [options.experiment, options.site, options.results]
        if selection != ["*", "*", Path("results")]:
            raise ConfigError(
                "--experiment, --site and --results choose among what is measured already.",
                where="compare",
                remedy="leave them out, or leave out KEY=VALUE and --budget.",
            )
        options.experiment, page = measured(question, Path.cwd())
    records, certificates = read_certified(options.results, options.experiment, options.site)
    if not records:
        raise _no_records(options)

    frame = tidy(records)
    together = Measurements(frame, certificates=certificates)
    terms = [name.split(",") for name in names]
    table = versus_each(together, terms)
    void = void_messages(frame, terms)
    if table.empty:
        runs = frame[frame["phase"] == "run"]
        unknown = [each for each in terms if selected(runs, each).empty]
        raise _no_pair(names, unknown, void)

    text = as_text(table.drop(columns="unequal")).to_json(orient="records", indent=2)
    write_numbers(options.json, text)
    if options.json != STANDARD_OUTPUT:
        print_comparison(table, names)
        lines: list[str] = []
        if table["low"].notna().any():
            runs = selected(together.runs, *terms)
            lines += session_notes(runs, {record.key: record.finished for record in records})
            if options.experiment != "*":  # runs of other experiments may be in no pair
                lines += turn_notes(runs)
        lines += void
        for line in dict.fromkeys(lines):
            print(line)
        print_answers(table, page)

    if limit is None:
        return 0
    return _exit_code(limit, together, names, options.fail_if)


def _exit_code(limit: Limit, measured: Measurements, names: Sequence[str], condition: str) -> int:
    """1 if a pair is shown to be beyond the limit of `--fail-if`."""
    from rnnbench.tables.comparison import versus

    second = limit.base if limit.own == names[0] else limit.own
    pairs = versus(measured, names[0].split(","), second.split(","))
    bounds = pairs[["low", "high"]].dropna()
    if limit.own == second:
        bounds = 1 / bounds[["high", "low"]]
    intervals = list(bounds.itertuples(index=False, name=None))
    if not intervals:
        raise ConfigError(
            f"no pair has an interval, so {condition!r} is neither shown nor excluded.",
            where="--fail-if",
            remedy="measure at least two rounds of two choices that compute the same function.",
        )
    failed = any(limit.holds(low, high) for low, high in intervals)
    if failed:
        say(f"--fail-if: {condition!r} holds.")
    return int(failed)


class Limit(NamedTuple):
    """The condition ``NAME<FACTOR`` or ``NAME>FACTOR`` of ``--fail-if``.

    - `own`: the name; `base`: what its speed-up is over.
    """

    own: str
    base: str
    sign: str
    factor: float

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval of the speed-up fulfils it."""
        if self.sign == "<":
            return high < self.factor
        return low > self.factor


def _limit(text: str, names: Sequence[str]) -> Limit:
    """The condition in `text` on one of the `names`, which is compared with the first one."""
    match = re.fullmatch(r"\s*(.+?)\s*([<>])\s*(\d+(?:\.\d+)?)\s*", text)
    if match is None or match[1] not in names:
        raise ConfigError(
            f"{text!r} is no condition.",
            where="--fail-if",
            remedy=f"write '{names[1]}<1.2' or '{names[1]}>1.5', in quotes.",
        )
    own, sign, factor = match.groups()
    base = names[0]
    if own == base and len(names) > 2:
        raise ConfigError(
            f"{text!r} does not say what {own} is compared with.",
            where="--fail-if",
            remedy=f"name another one, which is compared with it: '{names[1]}>1.2'.",
        )
    if own == base:
        base = names[1]
    return Limit(own, base, sign, float(factor))


COMPARED: Arguments = {
    "a": {"help": "the terms of A, such as unrolled or unrolled,cpu_2"},
    "b": {"help": "the terms of B, such as keras"},
    "words": {
        "nargs": "*",
        "default": [],
        "metavar": "C KEY=VALUE",
        "help": "further terms, and Hydra overrides to measure with",
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
    "--json": JSON,
    "--fail-if": {
        "metavar": "CONDITION",
        "help": "such as 'unrolled<1.2': fail if the whole interval of the speed-up of `unrolled` "
        "is below 1.2",
    },
    "--experiment": {"default": "*", "help": "only this experiment (default: all)"},
    "--site": {"default": "*", "help": "only this site (default: all)"},
    "--results": RESULTS,
}


def _compare_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, Question]:
    """The options of `compare` and what they ask; files exist or can be written."""
    parser = command_parser(compare, COMPARED)
    refuse_multirun(parser, arguments)
    options = parser.parse_intermixed_args(arguments)
    choices = [options.a, options.b]
    overrides: list[str] = []
    for word in options.words:
        # The terms of a choice may have an override after a comma: keras,units=512.
        is_override = "=" in word.partition(",")[0] or word.startswith("~")
        (overrides if is_override else choices).append(word)
    question = asked(
        lambda key: f"--{key}",
        implementations=choices,
        model=options.model,
        data=options.data,
        loss=options.loss,
        optimizer=options.optimizer,
        overrides=overrides,
        budget=60 * (options.budget or 1.0),
    )
    return options, question


def _no_records(options: argparse.Namespace) -> ConfigError:
    """What to say instead of a comparison without any records."""
    if not options.results.is_dir():
        where = f"--results {options.results}"
        return ConfigError("is not a folder.", where=where, remedy="correct the path.")
    sites = {folder.parent.name for folder in planned_folders(options.results, "*")}
    if sites and not fnmatch.filter(sites, options.site):
        remedy = f"name one of {', '.join(sorted(sites))}."
        return ConfigError("has no results.", where=f"--site {options.site}", remedy=remedy)
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
    names: Sequence[str],
    unknown: Sequence[Sequence[str]],
    void: Sequence[str],
) -> ConfigError:
    """What to say instead of a comparison without any pair.

    - `unknown`: the terms that match no measured run.
    - `void`: a message for each void run that A and B select.
    """
    what = f"no run of {names[0]!r} equals a run of {names[1]!r} in everything else."
    remedy = "name what differs: a choice, a machine, key=value or a pattern of run names."
    if unknown:
        what = f"no measured run matches {','.join(unknown[-1])!r}."
        remedy = "correct it, or add --budget 1, which measures A and B."

    if void:
        what += f" {'; '.join(void)}."
        remedy = "see `rnnbench show RUN`; `rnnbench retry EXPERIMENT` measures them again."
    return ConfigError(what, where="compare", remedy=remedy)


def read_certified(
    results: Path,
    experiment: str = "*",
    site: str = "*",
) -> tuple[list[Record], Certificates]:
    """All records of the experiments at the sites, judged by their certificates, and these. Says
    which files cannot be read.

    `experiment`, `site`: patterns of their names.
    """
    from rnnbench.tables.certificates import certificates_of

    folders = site_folders(results, experiment, site)
    records, faults = records_of(folders)
    certificates, unreadable = certificates_of(folders, records, results)
    for fault in faults + unreadable:
        say(fault)
    return certificates.mark_wrong_gradients(records), certificates
