"""A made-up page with every section: complete and correct, and what its charts draw."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pandas as pd
import pytest

from rnnbench.records.plan_file import Experiment
from rnnbench.report import figures
from rnnbench.report.content import Content
from rnnbench.report.page import write_index, write_report
from tests.conftest import draw_chart
from tests.factory import make_runs, replace
from tests.report.made_up import SIX, inputs, six, write_site

SECTIONS = ("speed", "learnt", "money", "builds", "threads", "efficiency", "ran", "curves",
            "target", "beside", "trust", "origin")  # fmt: skip


MARKS = {"point": "symbol", "tick": "rect"}  # as Vega names them in the SVG, if not the same


def layers_of(chart: dict[str, Any]) -> str:
    """What a chart draws, without its data."""
    encodings = [(layer["mark"], sorted(encoding_of(layer, chart))) for layer in chart["layer"]]
    return json.dumps(encodings)


@pytest.fixture(scope="module")
def made(tmp_path_factory, request):
    """The folder of the pages, and the specifications of all charts with their SVGs. In the quick
    tier, one chart of each kind is drawn, and the others are not among them."""
    drawn, kinds = [], set()
    undrawn = figures.vl_convert.vegalite_to_svg

    def rendered(chart):
        if request.config.getoption("--quick") and layers_of(chart) in kinds:
            return undrawn(chart)
        kinds.add(layers_of(chart))
        drawn.append((chart, draw_chart(chart)))
        return drawn[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures.vl_convert, "vegalite_to_svg", rendered)
        return write_site(tmp_path_factory.mktemp("six")), drawn


@pytest.fixture(scope="module")
def site(made):
    return made[0]


@pytest.fixture(scope="module")
def html(site):
    return (site / "six" / "report.html").read_text()


def test_every_section_is_filled(html):
    for section in SECTIONS:
        assert f'<details class="part" id="{section}"' in html
    assert "made-up numbers" in html and "Made-up prices" in html


def test_an_unequal_pair_has_no_speedup_anywhere(site, html):
    table = pd.read_csv(site / "six/tables/time.csv")
    cell = table[(table["rnn"] == "cell") & (table["build"] == "tf_1_15")]
    assert cell["speedup"].isna().all() and set(cell["words"]) == {"not the same function"}
    assert "gradients differ by 0.03 (allowed 0.0001)" in html
    assert cell["unequal"].str.startswith("≠").all() and len(cell) > 1
    others = table.drop(cell.index)
    assert others["unequal"].isna().all() and others["difference"].isna().all()
    # Only marked ratios in the table, and none in the answer.
    for text in (html, (site / "six/report.md").read_text()):
        pattern = r"(..)\d[\d.]*×(?:(?!not compared)[^≠×]){0,400}keras and cell: gradients"
        found = re.findall(pattern, text)
        assert set(found) == {"≠ "} and len(found) >= len(cell)
    answer = html[html.index('id="answer"') : html.index('<div class="lead"')]
    assert "≠" not in answer
    compared = pd.read_csv(site / "six/tables/builds.csv")
    other = compared[(compared["rnn"] == "cell") & (compared["build"] == "tf_1_15")]
    # Both builds are certified against float64, so their times may be compared.
    assert other["change"].notna().all()


def test_reasons_for_missing_mfu_are_given(site, html):
    assert "conf/device/k80.yaml states no peak_tflops of float32 (<code>mnist_rnn</code>" in html
    table = pd.read_csv(site / "six/tables/efficiency.csv")
    assert (table["mfu"].isna() == (table["device"] == "k80")).all()
    without = replace(SIX, peak_tflops={})
    write_report(Content(six()[:6], without), site / "none")
    text = (site / "none/report.md").read_text()
    assert "## Efficiency" in text and "GFLOP/s" in text and "No MFU" not in text


def test_the_recommendation_respects_its_limits(site):
    text = (site / "six/report.md").read_text()
    assert "Cheapest way to train mnist_rnn within 60.0 s: `cudnn` on rtx_2070" in text
    assert "Fastest way to train mnist_rnn for at most 0.0100 USD: `cudnn` on h200" in text


def test_published_numbers_are_in_no_table_of_measurements(site):
    for table in ("time", "accuracy", "cost"):
        assert "Tesla" not in (site / f"six/tables/{table}.csv").read_text()
    assert "ASH1998/mnist-CuDNNLSTM" in (site / "six/report.md").read_text()


def test_stale_figures_and_tables_are_deleted(tmp_path):
    for name in ("figures/old.svg", "tables/old.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x")
    (tmp_path / "notes.txt").write_text("mine")
    write_report(Content(six()[:4], SIX), tmp_path)
    assert not any((tmp_path / name).exists() for name in ("figures/old.svg", "tables/old.csv"))
    assert (tmp_path / "notes.txt").exists()


def test_the_index_lists_the_newest_report_first_and_skips_broken_cards(site):
    card = {"name": "good", "title": "<T>", "summary": "s", "answers": ["`a` wins"]}
    dates = {"older": "20261121T1", "newer": "20261122T1"}
    cards = {"good": card, "bad": []} | {name: {**card, "last": dates[name]} for name in dates}
    for name, content in cards.items():
        (site / name).mkdir()
        (site / name / "card.json").write_text(json.dumps(content))
        (site / name / "report.html").write_text("x")
    text = write_index(site).read_text()
    assert '<a href="good/report.html">&lt;T&gt;</a>' in text and "bad/" not in text
    assert "<code>a</code> wins" in text
    assert text.index('"newer/') < text.index('"older/')


def leading(lead):
    """A page of two devices and one build that leads with `lead`."""
    records = [
        record
        for record in six()
        if record.run.choices["device"] in ("k80", "cpu_4")
        and record.run.choices["build"] == "tf_2_21"
    ]
    return Content(records, replace(SIX, lead=lead), beside=inputs())


def test_a_report_may_lead_with_the_devices(tmp_path):
    page = leading("devices")
    assert [view.id for view in page.lead_views] == ["money-table"]
    assert {figure.kind for figure in page.lead_figures} == {"relative-time"}
    (money,) = [section for section in page.sections if section.id == "money"]
    assert {figure.kind for figure in money.figures} == {"relative-cost", "front"}
    assert "money-table" not in [view.id for view in money.views]
    write_report(page, tmp_path)
    text = (tmp_path / "report.md").read_text()
    for name in ("figures/relative-time", "One training run by device"):
        assert text.count(name) and text.rindex(name) < text.index("## Time")
    for figure in page.lead_figures:
        assert (tmp_path / "figures" / f"{figure.id}.svg").is_file()
        assert f"figures/{figure.id}.svg" in text


def test_a_report_may_lead_with_the_kernels():
    assert [view.id for view in leading("kernels").lead_views] == ["kernels"]


def test_a_figure_of_speedups_has_more_than_the_reference():
    records = [run for n in (1, 2) for run in make_runs({"keras": 0.5}, device=f"cpu_{n}")]
    page = Content(records, Experiment("t", "t", "", {"device": "cpu_1"}))
    assert [figure.title for figure in page.lead_figures] == ["Speed-up on two threads"]


def rows_of(layer: dict[str, Any], chart: dict[str, Any]) -> list[dict[str, Any]]:
    return (layer.get("data") or chart["data"])["values"]


def encoding_of(layer: dict[str, Any], chart: dict[str, Any]) -> dict[str, Any]:
    return chart.get("encoding", {}) | layer.get("encoding", {})


def test_each_field_of_a_layer_is_in_its_rows(made):
    marks = Counter()
    for chart, _ in made[1]:
        for layer in chart["layer"]:
            encoding = encoding_of(layer, chart)
            fields = {each["field"] for each in encoding.values() if "field" in each}
            rows = rows_of(layer, chart)
            assert rows and fields <= rows[0].keys(), chart["title"]
            assert not any(value != value for row in rows for value in row.values()), "NaN"
            marks[layer["mark"]["type"]] += 1
    assert marks.keys() >= {"line", "point", "rect", "rule", "text", "tick"}


def test_each_layer_is_drawn_with_its_texts(made):
    for chart, svg in made[1]:
        kinds = Counter(layer["mark"]["type"] for layer in chart["layer"])
        for kind, number in kinds.items():
            assert svg.count(f"mark-{MARKS.get(kind, kind)} ") >= number, (chart["title"], kind)
        for layer in chart["layer"]:
            encoding = encoding_of(layer, chart)
            if "text" in encoding:
                name = encoding["text"]["field"]
                shown = {str(row[name]) for row in rows_of(layer, chart) if row[name]}
                escaped = {text.replace("&", "&amp;").replace("<", "&lt;") for text in shown}
                assert all(f">{text}<" in svg for text in escaped), chart["title"]
