"""Popular claims, and whether the published rows support them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
import pytest

from rnnbench.commands.report import published
from rnnbench.errors import ConfigError
from rnnbench.sources.published import (
    Claim,
    Comparison,
    PublishedRow,
    read_claims,
    read_published,
    read_sources,
)
from rnnbench.tables.comparison import claims_table, published_frame, published_pairs, verdict_of
from rnnworker import machine
from tests.conftest import ROOT
from tests.factory import make_record, put

FOLDER = Path(ROOT) / "reports" / "published"
ARTICLE = "minimaxir/deep-learning-cpu-gpu-benchmark"
COMPILED = "build=compiled (SSE4.2/AVX/FMA)"
TWICE, WINNER = "a GPU is twice as slow as any CPU", "16 vCPUs and compiled"
NOT_COMPUTED = {
    "cuDNN does not change the accuracy",
    "under a minute instead of 10 min 30 s",
    "evaluate() and predict() are faster",
    "preemptible for 20 % of the price",
}


def judged(rows=None):
    rows = rows or [row for row in read_published(FOLDER) if row.source != "me"]
    return claims_table(read_claims(FOLDER), published_frame(rows)).set_index("claim")


def changed(seconds, **fields):
    """The published rows; those with these `fields` take `seconds` (a function of theirs)."""
    return [
        msgspec.structs.replace(row, train_seconds=seconds(row.train_seconds))
        if all(getattr(row, name) == value for name, value in fields.items())
        else row
        for row in read_published(FOLDER)
    ]


def test_verdicts_of_the_claims():
    table = judged()
    assert set(table.index[table["verdict"] == "cannot say"]) == NOT_COMPUTED
    assert set(table.index[table["values"] == {}]) == NOT_COMPUTED
    others = table.loc[~table["verdict"].isin(["cannot say", "holds"]), "verdict"]
    assert len(table) == 19 and others.to_dict() == {
        "2.5× on a GTX 950": "does not hold",
        "very minimal gain on an RTX 2070": "does not hold",
        WINNER: "not contradicted",
        "CPUs are cheaper only if preemptible": "does not hold: 1 of 8 outside the range",
    }


def test_values_of_the_claims_by_hand():
    table = judged()
    twice = table.loc[TWICE]
    assert min(twice["values"].values()) == pytest.approx(1229.42 / 627.13)
    assert len(twice["values"]) == 8 and twice["tested"].endswith(
        "for each vcpus_base and build_base, at least 1.95 (rows: 9, pairs: 8)"
    )
    assert table.loc["almost 10 times faster", "values"][""] == pytest.approx(
        (984.2 / 130.84 * 496.82 / 39.82) ** 0.5
    )
    only_there = table.loc["compiling helps only with 8 and 16 vCPUs", "values"]
    assert only_there == pytest.approx({"32": 0.970, "64": 1.042}, abs=5e-4)
    assert table.loc["30–40 % from compiling", "values"][""] == pytest.approx(1.377, abs=5e-4)
    gains = [table.loc[claim, "values"][""] for claim in table.index if "TX" in claim]
    assert gains == pytest.approx([3755 / 1417, 1417 / 1322, 1322 / 1012])
    price = table.loc["64 vCPUs at two thirds of the price", "values"]
    assert price[""] == pytest.approx(0.5091 / 0.745)
    cost = table.loc["CPUs are cheaper only if preemptible", "values"]
    assert [key for key, ratio in cost.items() if ratio < 0.2] == ["8, compiled (SSE4.2/AVX/FMA)"]


def means(**fields):
    """The geometric means of time and cost over the pairs of the article."""
    pairs = published_pairs(
        published_frame(read_published(FOLDER)), Comparison(source=ARTICLE, **fields)
    )
    return pairs[["time", "cost"]].map(math.log).mean().map(math.exp)


def test_notes_agree_with_the_rows():
    pip = {"base": COMPILED, "by": "workload vcpus"}
    eight, sixteen = (means(rows=f"build=pip; vcpus={n}", **pip)["time"] for n in (8, 16))
    assert eight > 1.4 > sixteen > 1.3, "8 alone are above the range"
    other = means(rows=f"vcpus=8; {COMPILED}", base=f"vcpus=16; {COMPILED}", by="workload")
    assert other["time"] > 1 > other["time"] * other["cost"], "the product is smaller"


def test_verdicts_are_computed_from_the_rows():
    bilstm = {"workload": "imdb_bidirectional_lstm", "vcpus": 8, "build": "pip"}
    assert judged(changed(lambda s: 640.0, **bilstm)).loc[TWICE, "verdict"] == (
        "does not hold: 1 of 8 outside the range"
    )
    compiled = {"vcpus": 16, "build": COMPILED.removeprefix("build=")}
    winner = judged(changed(lambda s: 2 * s, **compiled)).loc[WINNER]
    assert winner["verdict"] == "does not hold: 3 of 9 outside the range"
    row = PublishedRow(source="x", year=2020, workload="y", train_seconds=1.0, caveat="z")
    unmatched = "cannot say: no published row matches"
    assert set(judged([row])["verdict"]) == {"cannot say", unmatched}


@pytest.mark.parametrize("ratio", ["time", "cost", "price", "larger"])
def test_a_claim_on_the_cost_of_rows_without_prices_is_not_decided(ratio):
    claim = Claim(
        claim="c", words="w", address="a", source="ASH1998/mnist-CuDNNLSTM", ratio=ratio,
        rows="implementation=LSTM", base="implementation=CuDNNLSTM", by="device", low=1,
    )  # fmt: skip
    (row,) = claims_table([claim], published_frame(read_published(FOLDER))).to_dict("records")
    assert row["verdict"].partition(":")[0] == ("holds" if ratio == "time" else "cannot say")


def test_a_ratio_of_a_bound_is_not_used():
    claim = Claim(
        claim="c", words="w", address="a", source="StackOverflow 49987261, first answer",
        rows="implementation=LSTM", base="implementation=CuDNNLSTM", by="workload", low=10,
    )  # fmt: skip
    (row,) = claims_table([claim], published_frame(read_published(FOLDER))).to_dict("records")
    assert (row["verdict"], row["values"]) == ("cannot say: no published row matches", {})


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [([1.0, 2.0], "holds"), ([0.9], "does not hold"), ([2.1], "does not hold"),
     ([1.5, 3.0], "does not hold: 1 of 2 outside the range"),
     ([], "cannot say: no published row matches")],
)  # fmt: skip
def test_a_claim_holds_if_every_ratio_is_in_its_range(ratios, expected):
    claim = Claim(claim="c", words="w", address="a", source="s", base="year=2020", by="workload",
                  low=1, high=2)  # fmt: skip
    assert verdict_of(claim, ratios) == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("ratio", "measured", "unknown field `measured`"),
     (",price,", ",speed,", "ratio: Invalid enum value 'speed'"),
     ("device=Tesla K80;", "card=Tesla K80;", "no column 'card'"),
     (",vcpus_base build_base,", ",vcpus_base card_base,", "no column 'card'"),
     (",9,10,", ",nine,10,", "low: Expected `float"),
     (",cannot say,", ",,", "a claim without `base` needs `answer` and `note`"),
     (" / mnist_rnn,lstm,keras", "", "`ours` is not of the form"),
     (",device,,", ",,,", "`base` needs `by`")],
)  # fmt: skip
def test_invalid_claims_file_names_the_fault(tmp_path, old, new, message):
    text = (FOLDER / "claims.csv").read_text()
    assert old in text
    (tmp_path / "claims.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_claims(tmp_path)
    assert "claims.csv:" in str(caught.value)


def test_sources_and_claims_may_be_missing_and_are_no_rows(tmp_path):
    assert read_claims(tmp_path) == read_sources(tmp_path) == []
    (tmp_path / "sources.csv").write_text("source,title\ns,t\n")
    assert [source.title for source in read_sources(tmp_path)] == ["t"]
    assert read_published(tmp_path) == []


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
            put(tmp_path, record)
    assert (
        published(["--rows", str(FOLDER), "--out", str(tmp_path), "--results", str(tmp_path)]) == 0
    )
    text = (tmp_path / "published.html").read_text()
    shown = re.sub(r'data-markdown="[^"]*"', "", text)  # the text for the copy button repeats it
    assert shown.count("2.00× (") == (1 if local else 0)
    assert "Of 19 claims, 3 do not hold by their rows, and the rows do not decide 4" in text
