"""Report content → files: an HTML page, a Markdown page, CSV tables, SVG figures; and
``reports/index.html`` with the answers of all reports."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rnnbench.locks import locked
from rnnbench.records.report_files import (
    CARD,
    FIGURES,
    FURTHER_TABLES,
    MARKDOWN,
    PAGE,
    TABLES,
    table_file,
)
from rnnbench.records.store import write_bytes
from rnnbench.report import numbers
from rnnbench.report.content import Content
from rnnbench.report.figures import standalone, to_pdf, to_png
from rnnbench.report.labels import run_anchor
from rnnbench.report.provenance import median_epoch
from rnnbench.report.rounds import method_text
from rnnbench.report.views import by_spanner, shortened, to_markdown

PREVIEW = f"{FIGURES}/preview.png"  # the image in link previews
# How many rows of a table, figures, list entries and configurations are shown unfolded.
FOLD = {"rows": 24, "figures": 4, "entries": 12, "configurations": 24}
NBSP = "\N{NO-BREAK SPACE}"
JOINER = "\N{WORD JOINER}"
HYPHEN = "\N{NON-BREAKING HYPHEN}"
SUFFIXES = (".svg", ".pdf", ".png", ".csv")
COUNTS = ("batch", "epochs", "flops_per_sample", "samples", "timesteps")
WITH_TEXTS = ("variant", "options", "unequal")  # columns of objects
FACTS = {"name", "title", "summary", "answers"}


def write_report(report: Content, out: Path, pdf: bool = False) -> list[Path]:
    """Writes ``report.html``, ``report.md``, ``card.json``, the `TABLES` and what is in ``figures``
    below `out`. Returns their paths, the page first.

    `pdf`: whether figures are also written as PDF, whose bytes differ from one time to the next.

    **Raises** `ValueError` if a section has a table that is not in `TABLES`.
    """
    undeclared = set(report.csv) - {*TABLES, *FURTHER_TABLES}
    if undeclared:
        raise ValueError(f"records.report_files.TABLES lacks {', '.join(sorted(undeclared))}")

    texts: dict[str, str | bytes] = {}
    texts[PAGE] = to_page(report)
    texts[MARKDOWN] = to_readme(report)
    further = [name for name in FURTHER_TABLES if name in report.csv]
    for name in (*TABLES, *further):
        table = as_text(report.csv[name])
        # An apostrophe stands before texts that a spreadsheet would compute.
        table = table.replace(r"^([=+@-])", r"'\1", regex=True)
        texts[table_file(name)] = table.to_csv(index=False)
    for figure in report.figures:
        texts[f"{FIGURES}/{figure.id}.svg"] = standalone(figure.svg)
        if pdf:
            texts[f"{FIGURES}/{figure.id}.pdf"] = to_pdf(figure.svg)
    if report.lead_figures:
        texts[PREVIEW] = to_png(report.lead_figures[0].svg)
    facts = {
        "name": report.experiment.name,
        "title": report.experiment.title,
        "summary": report.summary,
        "answers": [answer.speed_sentence for answer in report.answers],
        "last": report.last,
        "files": [*texts, CARD],
    }
    texts[CARD] = json.dumps(facts, indent=1) + "\n"

    # Figures and tables of an earlier report would look current.
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    for stale in (*out.glob(f"{FIGURES}/*"), *out.glob("tables/*.csv")):
        if stale.relative_to(out).as_posix() not in texts and stale.suffix in SUFFIXES:
            stale.unlink()
    return _write_texts(texts, out)


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`table` as its CSV file has it: with texts for overrides, methods and unequal ratios, and
    with integers for counts."""
    columns: dict[str, pd.Series[Any]] = {}
    if "method" in table:
        columns["method"] = table["method"].map(method_text, na_action="ignore")
    for name in WITH_TEXTS:
        if name in table:
            columns[name] = table[name].map(str, na_action="ignore")
    for name in COUNTS:
        if name in table:
            numbers = pd.to_numeric(table[name])
            is_whole = numbers.dropna().eq(numbers.dropna().round()).all()
            columns[name] = numbers.astype("Int64") if is_whole else numbers
    return table.assign(**columns)


def _write_texts(texts: dict[str, str | bytes], out: Path) -> list[Path]:
    """Writes each text to its path below `out`: the page, which is the first, last. Returns their
    paths."""
    for name, text in reversed(texts.items()):
        if isinstance(text, str):
            text = text.encode("utf-8")
        write_bytes(out / name, text)
    return [out / name for name in texts]


def to_page(report: Content) -> str:
    """The self-contained HTML page.

    It has all styles, scripts and figures, and needs no other file.
    """
    return rendered(
        "report.html.j2",
        page=report,
        section_ids=[section.id for section in report.sections],
        title=report.experiment.title,
        description=report.answers[0].speed_sentence.replace("`", ""),
        picture=PREVIEW if report.lead_figures else "",
    )


def to_readme(report: Content) -> str:
    """The report as GitHub Markdown, with links to the figures' files."""
    return re.sub(r"\n{3,}", "\n\n", rendered("report.md.j2", page=report))


def _only_text(value: Any) -> Any:
    """`value` without what Markdown would show as HTML, a link or an image."""
    if isinstance(value, Markup):
        return value
    return re.sub(r"\](?=[(:\[])", r"\]", str(value).replace("<", "&lt;"))


def rendered(template: str, **values: Any) -> str:
    """The `template` filled in with `values`."""
    environment = _environment(template.endswith(".html.j2"))
    return environment.get_template(template).render(**values)


@functools.cache
def _environment(html: bool) -> Environment:
    """Of the templates of HTML, or of Markdown; it compiles each template once."""
    environment = Environment(
        loader=PackageLoader("rnnbench.report", "templates"),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=None if html else _only_text,
    )
    environment.filters |= {
        "spans": spans,
        "shortened": shortened,
        "markdown": to_markdown,
        "by_spanner": by_spanner,
        "unbroken": unbroken,
        "anchor": run_anchor,
        "median_epoch": median_epoch,
        "markup": Markup,
    }
    environment.globals |= {"fold": FOLD, "n": numbers, "description": "", "picture": ""}
    return environment


def spans(text: str) -> Iterator[tuple[bool, str]]:
    """The pieces of `text` between backticks: (is code, piece)."""
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield number % 2 == 1, piece


def unbroken(text: str) -> str:
    """`text` without line breaks inside ``95 % CI 1.45–1.54`` and ``1e-07``."""
    text = re.sub(r"(?<=\d) %(?: CI)?(?: (?=\d))?", lambda m: m.group().replace(" ", NBSP), text)
    text = re.sub(r"(?<=\d)–(?=\d)", "–" + JOINER, text)
    return re.sub(r"(?<=\de)-(?=\d)", HYPHEN, text)


def write_index(reports: Path) -> Path:
    """Writes ``index.html`` for the reports below `reports`, by latest run, newest first. Returns
    its path.

    Reports whose card cannot be read are left out: the next report of the experiment rewrites it.
    """
    with locked(reports / ".index.lock"):
        entries = []
        for path in sorted(reports.glob(f"*/{CARD}")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                facts = json.loads(path.read_text(encoding="utf-8"))
                if set(facts) >= FACTS and path.with_name(PAGE).is_file():
                    entries.append({**facts, "path": f"{path.parent.name}/{PAGE}"})
        text = rendered(
            "index.html.j2",
            entries=sorted(entries, key=lambda facts: facts.get("last", ""), reverse=True),
            section_ids=[],
            title="Reports",
        )
        return _write_texts({"index.html": text}, reports)[0]
