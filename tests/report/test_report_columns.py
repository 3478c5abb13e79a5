"""The tables of a report, read with pandas: what they promise in the reference of tables."""

from __future__ import annotations

import re
import sys

import pandas as pd
import pytest

from rnnbench.records.report_files import TABLES, table_file
from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from tests.conftest import ROOT
from tests.report.made_up import SIX, inputs, six

sys.path.insert(0, str(ROOT / "docs"))
import reference_hook

# Of "the configuration", and of the runs behind a row.
EVERYWHERE = {"record", "name", "started", "words", "method"}
# Measured numbers that happen to be whole in the made-up runs.
MEASURED = "seconds|ideal|^ms_|^us_|loss|acc|low$|high$|speedup|relative|usd|change"


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    out = tmp_path_factory.mktemp("report")
    write_report(Content(six(), SIX, beside=inputs()), out)
    return {name: pd.read_csv(out / table_file(name)) for name in TABLES}


def test_every_column_is_described(tables):
    described = set(re.findall(r"`(\w+)`", reference_hook.tables())) | EVERYWHERE
    unknown = {}
    for name, table in tables.items():
        bases = {re.sub("_(low|high|sd)$", "", column) for column in table}
        if bases - described:
            unknown[name] = sorted(bases - described)
    assert unknown == {}


def test_integers_stay_integers(tables):
    wrong = []
    for name, table in tables.items():
        for column in table.select_dtypes("float"):
            values = table[column].dropna()
            if len(values) and values.eq(values.round()).all() and not re.search(MEASURED, column):
                wrong.append(f"{name}.{column}")
    assert wrong == []
