"""The files of a report, which are the outputs of the workflow's rule ``report``."""

from __future__ import annotations

PAGE, MARKDOWN, CARD, FIGURES = "report.html", "report.md", "card.json", "figures"
# Each is written even if it has no rows, so that the rule can name it.
TABLES = (
    *("accuracy", "alike", "builds", "calls", "cost", "efficiency", "energy", "epochs", "metrics"),
    *("runs", "target", "threads", "time", "turns"),
)
FURTHER_TABLES = ("prediction",)  # written if there are such rows


def table_file(name: str) -> str:
    """The path of a table below the folder of a report."""
    return f"tables/{name}.csv"
