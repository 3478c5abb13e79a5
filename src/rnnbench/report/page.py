"""Content → files: one HTML page, one Markdown page, CSV tables, SVG figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.errors import RecordError
from rnnbench.records.record import Record
from rnnbench.report.answer import spans
from rnnbench.report.content import Content, Experiment, content
from rnnbench.report.raw import EPOCH_HEADS
from rnnbench.report.sheet import to_html, to_markdown
from rnnbench.report.svg import standalone

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(
    records: Sequence[Record],
    out: Path,
    *,
    experiment: Experiment,
    skipped: Iterable[Mapping[str, str]] = (),
    missing: Iterable[str] = (),
    faults: Iterable[str] = (),
) -> list[Path]:
    """Writes ``report.html``, ``report.md``, ``tables/*.csv`` and ``figures/*.svg`` below
    `out` and returns their paths, the page first.

    **Arguments:**

    - `records`: the runs there are, void ones too.
    - `experiment`: its name, title, what it is about, and the reference of speed-ups.
    - `skipped`: ``{"name", "why"}`` of cells that cannot exist.
    - `missing`: names of planned runs without a record.
    - `faults`: what could not be read, in words.
    """
    return write_content(content(records, experiment, skipped, missing, faults), out)


def write_content(found: Content, out: Path) -> list[Path]:
    """Writes the files of a report that is already computed."""
    texts = {"report.html": to_page(found), "report.md": to_readme(found)}
    texts |= {f"tables/{name}.csv": table.to_csv(index=False) for name, table in found.csv.items()}
    texts |= {f"figures/{figure.id}.svg": standalone(figure.svg) for figure in found.figures}
    try:
        for name, text in texts.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(
            f"the report cannot be written ({error.strerror}).",
            where=str(error.filename or out),
            remedy="make the folder writable, or choose another with --out.",
        ) from error
    return [out / name for name in texts]


def to_page(found: Content) -> str:
    """The self-contained HTML page."""
    return _environment(html=True).get_template("report.html.j2").render(page=found)


def to_readme(found: Content) -> str:
    """The same in GitHub's Markdown, with links to the figures' files."""
    return _environment(html=False).get_template("report.md.j2").render(page=found)


def _environment(*, html: bool) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("rnnbench.report", "templates"),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "spans": spans, "table": to_html if html else to_markdown, "drawn": Markup,
    }  # fmt: skip
    environment.globals["epoch_heads"] = EPOCH_HEADS
    return environment
