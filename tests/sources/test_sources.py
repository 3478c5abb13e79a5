"""Price lists, published rows and claims are read and validated; published rows are equal
to their sources, and claims are judged by them."""

from __future__ import annotations

import csv
import re
import runpy
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from rnnbench.commands.report import published
from rnnbench.errors import ConfigError
from rnnbench.report.published import beside_section, source_section, source_sections
from rnnbench.report.tables import ReportInputs
from rnnbench.sources.prices import choose_prices, read_prices
from rnnbench.sources.published import (
    COLUMNS,
    Claim,
    Comparison,
    PublishedRow,
    parse_row,
    read_claims,
    read_published,
    read_sources,
)
from rnnbench.tables.claims import claims_table, published_frame, published_pairs, verdict_of
from rnnbench.tables.time import time
from rnnworker import machine
from tests import factory
from tests.conftest import ROOT
from tests.factory import make_record, make_runs
from tests.report.made_up import store

FOLDER, PRICES = ROOT / "reports" / "published", ROOT / "conf" / "price"
SOURCES = {source.source: source for source in read_sources(FOLDER)}
K80_P100, STEPS, FIRST_ANSWER, *CPU_GPU = SOURCES
ROW = {"source": "me", "year": "2026", "workload": "mnist_rnn", "train_seconds": "12.5",
       "caveat": "one run", "epochs": "3", "acc": "0.97", "device": "H200"}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return published_frame([r for r in read_published(FOLDER) if r.source != "me"])


def against_base(table, name):
    return published_pairs(table, SOURCES[name])


def test_every_published_row_has_a_caveat_and_one_base(table):
    assert len(table) == 105 and (table["caveat"] != "").all()
    found = [against_base(table, name) for name in SOURCES]
    assert [len(rows) for rows in found] == [4, 5, 2, 63, 31]
    assert all(rows["time"].notna().all() for rows in found)
    # What a source does not state is empty.
    assert not table["framework"].str.contains("1.x|2.x", regex=True).any()
    assert not table.loc[table["vcpus"].isna(), "build"].any()


def test_rows_of_an_unknown_source_have_a_section_without_ratios(tmp_path):
    rows = published_frame([parse_row(ROW, "here")])
    (section,) = source_sections(rows, read_sources(tmp_path))
    (view,) = section.views
    labels = [column.label for column in view.columns]
    assert section.title == "me" and labels == ["epochs", "s", "acc", "build, framework, caveat"]
    assert view.rows[0].head == "H200" and view.rows[0].cells[:3] == ("3", "12.50", "0.9700")


def test_rows_and_ratios_match_their_sources(table):
    own = against_base(table, K80_P100).set_index(["device", "implementation"])
    assert round(own["speedup"]["Tesla K80", "CuDNNLSTM"], 1) == 7.5  # 984.2 / 130.84
    assert round(own["speedup"]["Tesla P100", "CuDNNLSTM"], 1) == 12.5  # 496.82 / 39.82
    # The third epochs of the two notebooks (P100) and of the two screenshots (K80).
    assert own[["loss", "val_loss"]].to_numpy().tolist() == [
        [0.1142, 0.1028], [0.0828, 0.0665], [0.1101, 0.0729], [0.0434, 0.0577],
    ]  # fmt: skip
    # The notebooks import tensorflow.keras and name no version and no package.
    assert set(own["framework"]) == {"TensorFlow (tf.keras)"} and not own["build"].any()
    assert own["caveat"].str.contains("three validations of 10,000 images and tracing").all()
    assert own["caveat"].str.contains("scaled per column").all()
    steps = against_base(table, STEPS)
    assert len(steps) == 5 and set(steps["device_base"]) == {"Intel i5-4690 (CPU only)"}
    (cudnn,) = steps[steps["implementation"] == "CuDNNLSTM"].to_dict("records")
    assert round(cudnn["speedup"], 1) == 54.4  # 3755 / 69
    assert cudnn["us_per_sample"] == pytest.approx(69e6 / 612235)
    compared = against_base(table, CPU_GPU[0])
    is_one = compared[["workload", "vcpus", "build"]].eq(["mnist_mlp", 8, "pip"]).all(axis=1)
    (mlp,) = compared[is_one].to_dict("records")
    assert mlp["time"] == pytest.approx(138.46 / 65.1)
    assert mlp["price"] == pytest.approx(0.0636 / 0.745)
    assert mlp["usd"] == pytest.approx(138.46 / 3600 * 0.0636)
    assert mlp["cost"] == pytest.approx(138.46 * 0.0636 / (65.1 * 0.745))


def test_text_generation_caveats_state_missing_validation_and_implementation(table):
    text = table[table["workload"].isin(["lstm_text_generation", "text_generator_keras"])]
    assert len(text) == 24 and text["val_loss"].isna().all()
    assert text["caveat"].str.contains("no validation").all()
    bidirectional = table[table["workload"] == "imdb_bidirectional_lstm"]
    for rows, count, number in ((text, 18, 2), (bidirectional, 9, 0)):
        first = rows.loc[rows["source"] == CPU_GPU[0], "caveat"]
        assert len(first) == count and first.str.contains(f"implementation={number}").all()


def test_an_upper_bound_is_not_a_time(table, tmp_path):
    reported = against_base(table, FIRST_ANSWER).to_dict("records")
    assert [(row["train_seconds"], row["below"]) for row in reported] == [(630, False), (60, True)]
    assert reported[1]["speedup"] == pytest.approx(10.5)
    (view,) = source_section(table, SOURCES[FIRST_ANSWER]).views
    shown = dict(zip((column.label for column in view.columns), view.rows[1].cells, strict=True))
    assert (shown["s"], shown["time"]) == ("below 60.00", "below 0.095×")
    assert shown["speed-up"] == "over 10.5×" and "cost" not in shown
    # It is still a bound after a round trip through the file.
    bound = parse_row({**ROW, "train_seconds": "<60"}, "here")
    add_script()["append_row"](tmp_path / "published" / "own.csv", bound)
    assert read_published(tmp_path / "published") == [bound] and bound.below


def add_script():
    return runpy.run_path(str(FOLDER / "add.py"))


def beside(**changes):
    """The section of published rows beside a measured one."""
    changes = {"model": "mnist_rnn", "samples": 60000, "us_per_sample": 80.0, **changes}
    table = time(factory.measured([make_record(epochs=2)])).assign(**changes)
    inputs = ReportInputs(published=tuple(read_published(FOLDER)))
    return beside_section(SimpleNamespace(time=table, inputs=inputs))


def test_published_rows_need_the_same_cell_and_samples_as_measured_rows():
    (view,) = beside().views
    start = "mnist_rnn, lstm, 60,000 samples per epoch: "
    groups = {f"{start}measured here", f"{start}published by others"}
    assert {row.group for row in view.rows} == groups
    assert [row.cells[3] for row in view.rows[:2]] == ["80.0", "5468"]  # 984.2 s / 3 / 60,000
    for section in (beside(cell="gru"), beside(samples=1438)):
        assert not section.views[0].rows and bool(section)
        assert section.paragraphs == [
            "Not shown, because the cell type or the number of samples differs or is unknown: "
            "4 rows of `mnist_rnn, lstm` (60,000 samples per epoch) by ASH1998/mnist-CuDNNLSTM.",
        ]
    assert not beside(model="mine")
    (view,) = beside(cell="", model="mnist_mlp").views  # it needs no rnn cell
    assert view.rows[0].group == "mnist_mlp, 60,000 samples per epoch: measured here"


def test_price_list_matches_the_published_rows(table):
    # A price is on demand, unless it is preemptible.
    stated = {each.device: each for each in read_prices(PRICES / "gce_2017.yaml").prices}
    rows = table[table["source"] == CPU_GPU[0]].to_dict("records")
    names = ["k80" if r["device"] == "Tesla K80" else f"cpu_{int(r['vcpus'])}" for r in rows]
    assert set(names) == set(stated)
    for name, row in zip(names, rows, strict=True):
        assert stated[name].usd_per_hour == row["price_usd_per_hour"]
        assert name == "k80" or stated[name].kind == "preemptible"


def test_the_price_list_of_most_devices_is_chosen_unless_the_user_names_one(tmp_path):
    assert choose_prices(None, PRICES, {"p100"}).name == "gce_2017_v2"
    assert choose_prices(None, PRICES, {"k80", "cpu_16"}).name == "gce_2017_v2", "the newer one"
    assert choose_prices(None, PRICES, {"k80", "cpu_16", "cpu_64"}).name == "gce_2017"
    assert choose_prices(None, PRICES, {"cpu_3"}) is None
    mine, price = tmp_path / "mine.yaml", "{device: p100, kind: owned, usd_per_hour: 0.5}"
    mine.write_text(f"title: T\ndate: 2026\nsource: S\nprices: [{price}]\n")
    assert choose_prices(str(mine), PRICES, {"p100"}).price_of("p100").usd_per_hour == 0.5


LIST = "title: T\ndate: d\nsource: S\nprices: "


@pytest.mark.parametrize(
    "text",
    ["[]", "title: x", "a: {", f"{LIST}[{{device: a}}]",
     f"{LIST}[{{device: a, kind: rent, usd_per_hour: 1}}]",
     f"{LIST}[{{device: a, kind: owned, usd_per_hour: -1}}]"],
)  # fmt: skip
def test_an_error_names_the_invalid_price_list(tmp_path, text):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"p\.yaml"):
        read_prices(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"caveat": ""}, "required field `caveat`"), ({"acc": "97"}, "acc: Expected `float` <= 1.0"),
     ({"train_seconds": "-1"}, "train_seconds: Expected `float` > 0.0"), ({"year": "20"}, "year"),
     ({"epochs": "x"}, "epochs: Expected `int"), ({"train_seconds": "nan"}, "train_seconds"),
     ({"speed": "1"}, "unknown field `speed`")],
)  # fmt: skip
def test_invalid_row_names_its_column(change, message):
    with pytest.raises(ConfigError, match=message):
        parse_row({**ROW, **change}, "here")


def test_publish_appends_once_and_keeps_existing_rows(tmp_path, capsys):
    file = tmp_path / "published" / "own.csv"
    given = [f"--{name.replace('_', '-')}={value}" for name, value in ROW.items()]
    publish = add_script()["main"]
    assert publish([*given, "--file", str(file)]) == 0 and "12.5 s" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="already has this row"):
        publish([*given, "--file", str(file)])
    publish([*given, "--file", str(file), "--build", 'a, "b"'])
    rows = list(csv.reader(file.open()))
    assert rows[0] == list(COLUMNS) and len(rows) == 3 and rows[2][6] == 'a, "b"'
    assert read_published(file.parent)[0].train_seconds == 12.5


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
    rows = rows or read_published(FOLDER)
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


def test_notes_agree_with_the_rows():
    table = published_frame(read_published(FOLDER))

    def means(rows: str, base: str, by: str):
        """The geometric means of time and cost over the pairs of the article."""
        comparison = Comparison(source=ARTICLE, rows=rows, base=base, by=by)
        return np.exp(np.log(published_pairs(table, comparison)[["time", "cost"]]).mean())

    eight, sixteen = (
        means(f"build=pip; vcpus={n}", COMPILED, "workload vcpus")["time"] for n in (8, 16)
    )
    assert eight > 1.4 > sixteen > 1.3, "8 alone are above the range"
    other = means(f"vcpus=8; {COMPILED}", f"vcpus=16; {COMPILED}", "workload")
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
    assert set(judged([row])["verdict"]) == {"cannot say", UNMATCHED}


MNIST = {"source": K80_P100, "by": "device", "low": 1}
UNMATCHED = "cannot say: no published row matches"


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({**MNIST, "ratio": "time"}, "holds"),
        ({**MNIST, "ratio": "cost"}, UNMATCHED),  # without prices
        ({**MNIST, "ratio": "price"}, UNMATCHED),
        ({**MNIST, "ratio": "larger"}, UNMATCHED),
        # An upper bound is not used.
        ({"source": FIRST_ANSWER, "by": "workload", "low": 10}, UNMATCHED),
    ],
)
def test_a_claim_without_the_numbers_of_its_ratio_is_not_decided(fields, verdict):
    claim = Claim(claim="c", words="w", address="a", rows="implementation=LSTM",
                  base="implementation=CuDNNLSTM", **fields)  # fmt: skip
    (row,) = claims_table([claim], published_frame(read_published(FOLDER))).to_dict("records")
    assert row["verdict"] == verdict and bool(row["values"]) == (verdict == "holds")


def test_a_claim_holds_if_every_ratio_is_in_its_range():
    claim = Claim(claim="c", words="w", address="a", source="s", base="year=2020", by="workload",
                  low=1, high=2)  # fmt: skip
    assert verdict_of(claim, [1.0, 2.0]) == "holds"
    assert verdict_of(claim, [0.9]) == verdict_of(claim, [2.1]) == "does not hold"
    assert verdict_of(claim, [1.5, 3.0]) == "does not hold: 1 of 2 outside the range"


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
        store(make_runs({"keras": seconds}, device=device, machine=name), tmp_path)
    arguments = ["--rows", str(FOLDER), "--out", str(tmp_path), "--results", str(tmp_path)]
    assert published(arguments) == 0
    text = (tmp_path / "published.html").read_text()
    shown = re.sub(r'data-markdown="[^"]*"', "", text)  # the text for the copy button repeats it
    assert shown.count("2.00× (") == (1 if local else 0)
    assert "Of 19 claims, 3 do not hold by their rows, and the rows do not decide 4" in text
