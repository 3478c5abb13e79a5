"""Report content → files: an HTML page, a Markdown page, CSV tables, SVG figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rnnbench.records.store import write_bytes
from rnnbench.report.answer import spans, unbroken
from rnnbench.report.content import Content
from rnnbench.report.numbers import NOTHING
from rnnbench.report.raw_runs import EPOCH_HEADS
from rnnbench.report.svg import standalone, to_png
from rnnbench.report.table_view import by_spanner, shortened, to_markdown

PREVIEW = "preview.png"  # the image in link previews
ALWAYS = ("accuracy", "time", "runs")  # outputs of the workflow's rule, even if empty
# How many rows of a table, figures, list items and configurations are shown unfolded.
FOLD = {"rows": 24, "figures": 4, "items": 12, "configurations": 24}


def write_report(report: Content, out: Path) -> list[Path]:
    """Writes ``report.html``, ``report.md``, ``preview.png``, ``tables/*.csv`` and
    ``figures/*.svg`` below `out`. Returns their paths, the page first."""
    texts: dict[str, str | bytes] = {
        "report.html": to_page(report),
        "report.md": to_readme(report),
    }
    texts |= {
        f"tables/{name}.csv": without_formulas(table).to_csv(index=False)
        for name, table in report.csv.items()
        if len(table) or name in ALWAYS
    }
    texts |= {f"figures/{figure.id}.svg": standalone(figure.svg) for figure in report.all_figures}
    if report.lead_figures:
        texts[PREVIEW] = to_png(report.lead_figures[0].svg)
    return write_texts(texts, out)


def write_texts(texts: dict[str, str | bytes], out: Path, *, clean: bool = True) -> list[Path]:
    """Writes each text to its path below `out`. `clean` deletes other figures and tables: those of
    an earlier report would look current. The page is written last, each file at once."""
    for folder, ending in (("figures", "svg"), ("tables", "csv")):
        for stale in (out / folder).glob(f"*.{ending}") if clean else ():
            if f"{folder}/{stale.name}" not in texts:
                stale.unlink()
    for name, text in reversed(texts.items()):
        write_bytes(out / name, text if isinstance(text, bytes) else text.encode("utf-8"))
    return [out / name for name in texts]


def to_page(report: Content) -> str:
    """The self-contained HTML page."""
    return (
        environment(html=True)
        .get_template("report.html.j2")
        .render(
            page=report,
            title=report.experiment.title,
            description=report.answers[0].speed_sentence.replace("`", ""),
            picture=PREVIEW if report.lead_figures else "",
        )
    )


def to_readme(report: Content) -> str:
    """The report as GitHub Markdown, with links to the figures' files."""
    return environment(html=False).get_template("report.md.j2").render(page=report)


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with an apostrophe before texts that a spreadsheet would compute."""
    texts = table.select_dtypes(["object", "string"]).columns
    return table.assign(**{name: table[name].map(_no_formula) for name in texts})


def _no_formula(value: Any) -> Any:
    is_one = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if is_one else value


def only_text(value: Any) -> Any:
    """`value` without what Markdown would show as HTML, a link or an image."""
    if isinstance(value, Markup):
        return value
    return re.sub(r"\](?=[(:\[])", r"\]", str(value).replace("<", "&lt;"))


def environment(*, html: bool) -> Environment:
    """The Jinja environment, with filters for tables and text."""
    result = Environment(
        loader=PackageLoader("rnnbench.report", "templates"),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=None if html else only_text,
    )
    result.filters |= {
        "spans": spans,
        "shortened": shortened,
        "markdown": to_markdown,
        "by_spanner": by_spanner,
        "unbroken": unbroken,
        "markup": Markup,
    }
    result.globals |= {
        "epoch_heads": EPOCH_HEADS, "fold": FOLD, "nothing": NOTHING, "description": "",
        "picture": "",
    }  # fmt: skip
    return result
