"""Cells cut out of a table: as pandas' own groups, in the order of the table."""

from __future__ import annotations

import pandas as pd

from rnnbench.tables.grouping import split

TABLE = pd.DataFrame(
    {
        "model": ["b", "a", "b", "a", "c"],
        "threads": [2.0, 1.0, 2.0, 4.0, None],
        "seconds": [5.0, 4.0, 3.0, 2.0, 1.0],
        "name": ["one", "two", "three", "four", "five"],
    }
)


def test_groups_and_rows_keep_the_order_of_the_table() -> None:
    found = split(TABLE, ["model"], ["seconds", "name"])
    assert list(found) == [("b",), ("a",), ("c",)]
    assert found["b",]["seconds"].tolist() == [5.0, 3.0]
    assert found["a",]["name"].tolist() == ["two", "four"]


def test_as_pandas_groups_them() -> None:
    found = split(TABLE, ["model", "threads"], ["seconds"])
    groups = TABLE.groupby(["model", "threads"], sort=False, dropna=False)
    assert [rows["seconds"].tolist() for rows in found.values()] == [
        rows["seconds"].tolist() for _, rows in groups
    ]
    assert list(found)[:3] == [("b", 2.0), ("a", 1.0), ("a", 4.0)]


def test_nothing_has_no_cells() -> None:
    assert split(TABLE.iloc[:0], ["model"], ["seconds"]) == {}
