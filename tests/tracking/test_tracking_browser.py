"""MLflow's web page in a real browser lists the runs with their axes."""

from __future__ import annotations

import re
from urllib.parse import quote

from rnnbench.tracking.store import connected
from rnnbench.tracking.track import track
from tests.factory import make_record
from tests.tracking.conftest import write_run

TIMEOUT_MS = 60_000


def test_runs_are_listed_and_can_be_filtered_by_axis(browser, server, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    records = [
        make_record(experiment="browsed", rnn=rnn, device=device)
        for rnn in ("keras", "block")
        for device in ("cpu_1", "cpu_2")
    ]
    runs = track([write_run(tmp_path, record) for record in records], tmp_path)
    with connected(tmp_path) as client:
        number = client.get_experiment_by_name("browsed").experiment_id

    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(f"{server}/#/experiments/{number}/runs")
    for record in records:
        page.get_by_role("link", name=record.name).first.wait_for()

    search_filter = quote("params.rnn = 'block' and params.device = 'cpu_2'")
    page.goto("about:blank")
    page.goto(f"{server}/#/experiments/{number}/runs?searchFilter={search_filter}")
    page.get_by_text(re.compile(r"^\s*1\s*matching run")).wait_for()

    page.goto(f"{server}/#/experiments/{number}/runs/{runs[records[3].key]}")
    for axis, choice in records[3].run.choices.items():
        row = page.get_by_role("row").filter(has=page.get_by_text(axis, exact=True))
        assert choice in row.first.inner_text()
    page.close()
