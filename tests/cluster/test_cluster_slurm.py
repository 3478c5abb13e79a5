"""The same experiment on a real two-node Slurm and on this machine without Slurm."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from itertools import combinations, pairwise, product
from pathlib import Path

import msgspec
import pytest

from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from tests.cluster.conftest import cluster_project
from tests.cluster.slurm import Slurm
from tests.conftest import Project, make_project


@pytest.fixture(scope="module")
def finished(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = cluster_project(tmp_path_factory.mktemp("cluster"), slurm)
    project.prepare()
    result = project.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    return project


@pytest.fixture(scope="module")
def records(finished: Project) -> list[Record]:
    return [read_record(path) for path in finished.records()]


ROUNDS = {
    "fake-lstm-cpu_1-fake-s0-r0": 2,
    "fake-lstm-cpu_1-fake-s0-r1": 2,
    "fake-lstm-pretend_gpu-fake-s0-r0": 1,
    "fake-lstm-pretend_gpu-fake-s0-r1": 1,
}


def overlap(one: Record, other: Record) -> bool:
    """Whether timed phases of both overlap."""
    pairs = product(*([phase for phase in each.phases if phase.timed] for each in (one, other)))
    return any(a.start < b.end and b.start < a.end for a, b in pairs)


def turns(record: Record) -> list[tuple[float, float]]:
    columns = (record.turns["start"], record.turns["seconds"])
    return [(start, start + seconds) for start, seconds in zip(*columns, strict=True)]


def round_of(record: Record) -> str:
    return record.round.id.split("/")[1]


def test_each_round_is_a_slurm_job_that_its_records_name(slurm: Slurm, finished, records) -> None:
    assert Counter(map(round_of, records)) == ROUNDS
    comments = {job: comment for job, _, comment in slurm.jobs()}
    targets = [text for text in comments.values() if text.startswith("results/slurm/cluster/")]
    assert sorted(targets) == [f"results/slurm/cluster/rounds/{name}.json" for name in ROUNDS]
    for record in records:
        job = record.facts["job"]
        file = finished.folder / comments[job["id"]]
        assert file.stem == round_of(record)
        assert record.name in json.loads(file.read_text())["members"]
        assert job["cluster"] == "pretend" and job["node"] in ("n1", "n2")
        assert (finished.folder / "results" / job["log"]).is_file()
        assert (finished.folder / "results/slurm/cluster/logs/slurm" / f"{job['id']}.log").is_file()
    assert {record.site for record in records} == {"slurm"}


def test_rounds_do_not_overlap_on_a_node_and_runs_of_a_round_take_turns(records) -> None:
    assert {record.facts["job"]["node"] for record in records} == {"n1", "n2"}
    for one, other in combinations(records, 2):
        if round_of(one) == round_of(other):
            assert overlap(one, other), "members of a round are alive at the same time"
            both = sorted([*turns(one), *turns(other)])
            assert all(a[1] <= b[0] for a, b in pairwise(both)), (one.name, other.name)
        elif one.facts["job"]["node"] == other.facts["job"]["node"]:
            assert not overlap(one, other), (one.name, other.name)


def test_jobs_of_one_gpu_follow_one_another(slurm: Slurm, records) -> None:
    spans = []
    for record in records:
        if record.run.choices["device"] == "pretend_gpu":
            facts = slurm.facts(record.facts["job"]["id"])
            assert facts["Partition"] == "gpu" and "gpu:h200:1" in facts["TresPerNode"]
            spans.append(tuple(datetime.fromisoformat(facts[f"{e}Time"]) for e in ("Start", "End")))
    (_, end), (start, _) = sorted(spans)
    assert end <= start


def test_records_equal_those_without_slurm_except_for_times(
    finished: Project, records, tmp_path: Path
) -> None:
    project = make_project(tmp_path)
    result = project.snakemake("--until", "rounds", experiment="cluster")
    assert result.returncode == 0, result.stdout + result.stderr
    local = {record.name: record for record in map(read_record, project.records())}
    assert set(local) == {record.name for record in records}
    for record in records:
        assert comparable(record) == comparable(local[record.name])
    assert (finished.folder / "reports/cluster/report.html").is_file()
    tracked = finished.folder / "results/slurm/cluster/tracked/0.json"
    assert set(json.loads(tracked.read_text())) == set(local)


def comparable(record: Record) -> dict:
    data = msgspec.to_builtins(record)
    epochs = [[e.epoch, e.samples, e.steps, e.loss, e.val_acc] for e in record.epochs]
    phases = [[phase.name, phase.timed] for phase in record.phases]
    return {"run": data["run"], "epochs": epochs, "phases": phases}
