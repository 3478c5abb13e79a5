"""Popular claims, and whether the published rows support them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from rnnbench.commands.published import main as published
from rnnbench.errors import ConfigError
from rnnbench.records.store import write_json
from rnnbench.sources.claims import read_claims
from rnnbench.sources.published import read_published
from rnnbench.tables.claims import claims_table
from rnnworker import machine
from tests.conftest import ROOT
from tests.factory import make_record

FOLDER = Path(ROOT) / "reports" / "published"
TWICE, COMPILED, WINNER = (
    "a GPU is twice as slow as any CPU",
    "30–40 % from compiling",
    "16 vCPUs and compiled",
)


def judged(rows=None):
    rows = rows or [row for row in read_published(FOLDER) if row.source != "me"]
    return claims_table(read_claims(FOLDER), rows).set_index("claim")


def test_two_claims_are_not_supported_by_their_rows():
    table = judged()
    assert table.index[table["supported"] == "no"].tolist() == [TWICE, COMPILED]
    assert table["supported"].value_counts().to_dict() == {"yes": 7, "no": 2, "cannot say": 1}
    twice, compiled = table.loc[TWICE], table.loc[COMPILED]
    assert (round(twice["found_low"], 2), twice["pairs"]) == (1.96, 8)  # 1229.42 / 627.13
    assert (compiled["found_low"], compiled["found_high"]) == pytest.approx(
        (0.900, 1.760), abs=5e-4
    )
    assert compiled["why"] == "26 of 28 are outside"


def test_support_is_computed_from_the_rows():
    def slower(row):
        is_changed = row.model == "imdb_bilstm" and row.vcpus == 8 and row.build == "pip"
        return msgspec.structs.replace(row, train_seconds=600.0) if is_changed else row

    assert judged(list(map(slower, read_published(FOLDER)))).loc[TWICE, "supported"] == "yes"

    def dearer(row):
        is_changed = row.vcpus == 16 and row.build.startswith("compiled")
        return (
            msgspec.structs.replace(row, train_seconds=2 * row.train_seconds) if is_changed else row
        )

    winner = judged(list(map(dearer, read_published(FOLDER)))).loc[WINNER]
    assert winner["supported"] == "no" and "both faster and cheaper" in winner["why"]
    assert set(judged([read_published(FOLDER)[0]])["supported"]) == {"cannot say"}


def test_rows_of_different_functions_cannot_support_an_accuracy_claim():
    row = judged().loc["cuDNN does not change the accuracy"]
    assert row["supported"] == "cannot say" and "differ in function" in row["why"]
    alike = [msgspec.structs.replace(row, caveat="one run") for row in read_published(FOLDER)]
    assert judged(alike).loc["cuDNN does not change the accuracy", "supported"] == "no"


def test_invalid_claims_file_names_the_fault(tmp_path):
    good = (FOLDER / "claims.csv").read_text()
    for old, new, message in (
        ("measure", "measured", "unknown field `measured`"),
        (",time,", ",speed,", "measure: Invalid enum value 'speed'"),
        ("device=Tesla K80;", "card=Tesla K80;", "no column 'card'"),
        (",9,10,", ",nine,10,", "low: Expected `float"),
    ):
        (tmp_path / "claims.csv").write_text(good.replace(old, new, 1))
        with pytest.raises(ConfigError, match=message):
            read_claims(tmp_path)
    assert read_claims(tmp_path / "nonexistent") == []


@pytest.mark.parametrize("local", [True, False])
def test_measurements_of_this_machine_are_shown_next_to_the_claims(tmp_path, local):
    name = machine.fingerprint()["machine"] if local else "other-0123abcd"
    for device, seconds in (("cpu_32", 0.5), ("cpu_64", 1.0)):
        for repeat in range(2):
            record = make_record(
                device=device,
                machine=name,
                repeat=repeat,
                epoch_seconds=seconds * (1 + 0.01 * repeat),
            )
            path = f"records/{record.key}.json"
            write_json(tmp_path / path, record.to_json())
            write_json(tmp_path / f"here/quick/{record.name}.json", {"record": path})
    assert (
        published(["--rows", str(FOLDER), "--out", str(tmp_path), "--results", str(tmp_path)]) == 0
    )
    text = (tmp_path / "published.html").read_text()
    shown = re.sub(r'data-markdown="[^"]*"', "", text)  # the text for the copy button repeats it
    assert shown.count("2.00× (") == (1 if local else 0)
    assert "Of 10 claims, the rows do not support 2" in text
