"""The documentation is written in short sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

WRITTEN_BY_HAND = (
    "*.md",
    "docs/*.md",
    "benchmarks/*.md",
    "config/*.md",
    "conf/price/*.md",
    "reports/*.md",
    "reports/published/*.md",
    "tests/*.md",
    "tests/faults/*.md",
)
PAGES = [page for pattern in WRITTEN_BY_HAND for page in sorted(ROOT.glob(pattern))]
MOST_WORDS = 35


def sentences(text: str) -> list[str]:
    """The sentences of a page in Markdown. Code blocks and headings do not count, each cell of a
    table stands alone, and a span of code is one word."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"^\|.*$", lambda row: row[0].replace("|", "\n\n"), text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^> ?", "", text, flags=re.M)
    found = []
    for paragraph in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.M):
        line = " ".join(paragraph.split())
        found += re.split(r"(?<=[.!?])[*)\"”]*\s", line)
    return [sentence for sentence in found if sentence]


def words_in(sentence: str) -> int:
    """A mark such as × or = is not a word."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def test_what_a_sentence_is() -> None:
    page = "# Not this\n\n[One](two.md) three.\n`four five` six:\n\n- **seven.** 8 × 9\n\n"
    page += "| ten | eleven. Twelve |\n|---|---|\n| `a|b` | fourteen |\n"
    in_text = ["[One] three.", "code six:", "**seven.", "8 × 9"]
    in_table = ["ten", "eleven.", "Twelve", "code", "fourteen"]
    found = [sentence for sentence in sentences(page) if words_in(sentence)]
    assert found == [*in_text, *in_table]
    assert [words_in(sentence) for sentence in found] == [2, 2, 1, 2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_has_more_than_35_words(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    long = [f"{words_in(each)}: {each}" for each in found if words_in(each) > MOST_WORDS]
    assert found and not long, "\n" + "\n".join(long)
