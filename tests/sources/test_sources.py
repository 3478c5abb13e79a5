"""Price lists and published rows are read and validated; published rows are equal to their
sources."""

from __future__ import annotations

import csv
import re
import runpy
from types import SimpleNamespace

import numpy as np
import pytest

from rnnbench.errors import ConfigError
from rnnbench.report.published import beside_section, source_section, source_sections
from rnnbench.report.tables import ReportInputs
from rnnbench.sources.prices import choose_prices, read_prices
from rnnbench.sources.published import (
    COLUMNS,
    Comparison,
    parse_row,
    read_published,
    read_sources,
)
from rnnbench.tables.published import published_frame, published_pairs
from rnnbench.tables.time import time
from tests import factory
from tests.conftest import ROOT
from tests.factory import make_record

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


def texts_of(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_speed_ups_without_prices_have_a_chart_that_says_who_measured(table, drawn_charts):
    (own,) = source_section(table, SOURCES[K80_P100]).figures
    assert own.title == "Published in 2018, not measured here" and own.title in own.svg
    texts = texts_of(own.svg)
    assert {"CuDNNLSTM, Tesla K80", "LSTM, Tesla P100", "7.52×", "12.5×"} <= set(texts)
    assert "speed-up over LSTM on the same device" in texts
    (steps,) = source_section(table, SOURCES[STEPS]).figures
    assert "speed-up over Intel i5-4690 (CPU only)" in texts_of(steps.svg)
    assert "54.4×" in texts_of(steps.svg)
    # One of the two is a bound. With prices, time and cost are drawn instead.
    assert not source_section(table, SOURCES[FIRST_ANSWER]).figures
    kinds = {figure.kind for figure in source_section(table, SOURCES[CPU_GPU[0]]).figures}
    assert kinds == {"published-time", "published-cost"}


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


def test_sources_may_be_missing_and_are_no_rows(tmp_path):
    assert read_sources(tmp_path) == []
    (tmp_path / "sources.csv").write_text("source,title\ns,t\n")
    assert [source.title for source in read_sources(tmp_path)] == ["t"]
    assert read_published(tmp_path) == []
