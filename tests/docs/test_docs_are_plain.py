"""The documentation is written in short sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_WORDS = 35


def sentences(text: str) -> list[str]:
    """The sentences of a page in Markdown. Code blocks, tables and headings do not count, and a
    span of code is one word."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^(\||#).*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]+`", "code", text)
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
    page = "# Not this\n\n[One](two.md) three.\n`four five` six:\n\n- **seven.** 8 × 9\n\n| no |\n"
    assert sentences(page) == ["[One] three.", "code six:", "**seven.", "8 × 9"]
    assert [words_in(sentence) for sentence in sentences(page)] == [2, 2, 1, 2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_has_more_than_35_words(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    long = [f"{words_in(each)}: {each}" for each in found if words_in(each) > MOST_WORDS]
    assert found and not long, "\n" + "\n".join(long)
