"""`split` gives the same groups as pandas, in the order of the table."""

from __future__ import annotations

import pandas as pd

from rnnbench.tables.frame import split

TABLE = pd.DataFrame(
    {
        "model": ["b", "a", "b", "a", "c"],
        "threads": [2.0, 1.0, 2.0, 4.0, None],
        "seconds": [5.0, 4.0, 3.0, 2.0, 1.0],
        "name": ["one", "two", "three", "four", "five"],
    }
)


def test_groups_and_rows_keep_the_order_of_the_table() -> None:
    groups = split(TABLE, ["model"], ["seconds", "name"])
    assert list(groups) == [("b",), ("a",), ("c",)]
    assert groups["b",]["seconds"].tolist() == [5.0, 3.0]
    assert groups["a",]["name"].tolist() == ["two", "four"]


def test_groups_are_those_of_pandas() -> None:
    groups = split(TABLE, ["model", "threads"], ["seconds"])
    expected = TABLE.groupby(["model", "threads"], sort=False, dropna=False)
    assert [rows["seconds"].tolist() for rows in groups.values()] == [
        rows["seconds"].tolist() for _, rows in expected
    ]
    assert list(groups)[:3] == [("b", 2.0), ("a", 1.0), ("a", 4.0)]


def test_an_empty_table_has_no_groups() -> None:
    assert split(TABLE.iloc[:0], ["model"], ["seconds"]) == {}
