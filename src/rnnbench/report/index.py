"""``reports/index.html``: every experiment's report, with its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rnnbench.locks import locked
from rnnbench.report.content import Content
from rnnbench.report.page import environment, write_texts

CARD = "card.json"


@dataclass(frozen=True)
class Entry:
    """One report: `path` is relative to the index, `last` the start of its latest run."""

    name: str
    title: str
    summary: str
    answers: tuple[str, ...]
    path: str
    last: str = ""


def card(found: Content) -> str:
    """What the index says of a report, as JSON: it stands beside the page as ``card.json``."""
    facts = {
        "name": found.experiment.name,
        "title": found.experiment.title,
        "summary": found.summary,
        "answers": [answer.fast for answer in found.answers],
        "last": found.last,
    }
    return json.dumps(facts, indent=1) + "\n"


def entries(reports: Path) -> list[Entry]:
    """All reports below `reports` that have a card and a page, that with the latest run first,
    then the published comparisons. A card that cannot be
    read is left out: the next report of its experiment writes it anew."""
    found = []
    for path in sorted(reports.glob(f"*/{CARD}")):
        page = path.with_name("report.html")
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            entry = Entry(
                str(facts["name"]), str(facts["title"]), str(facts["summary"]),
                tuple(map(str, facts["answers"])), f"{path.parent.name}/{page.name}",
                str(facts.get("last", "")),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if page.is_file():
            found.append(entry)
    found.sort(key=lambda entry: entry.last, reverse=True)
    if (reports / "published.html").is_file():
        found.append(
            Entry("published", "Published comparisons, from their own numbers",
                  "made by rnnbench published", (), "published.html")
        )  # fmt: skip
    return found


def write_index(reports: Path) -> Path:
    """Writes ``index.html`` of the reports below `reports`."""
    with locked(reports / ".index.lock"):
        page = environment(html=True).get_template("index.html.j2")
        text = page.render(entries=entries(reports), title="Reports")
        return write_texts({"index.html": text}, reports, clean=False)[0]
