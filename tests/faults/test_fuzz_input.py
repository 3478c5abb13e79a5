"""Bad input gives a correct result or a `RnnbenchError`, never another exception."""

from __future__ import annotations

import contextlib
import json
import tempfile
import warnings
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rnnbench.errors import RnnbenchError
from rnnbench.exchange import archive
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import read_record, write_json
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.worker import Outcome, parse
from rnnbench.sources.published import read_published
from tests.conftest import ROOT
from tests.factory import as_run, make_record
from tests.running.test_running_train import planned

FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
RECORD = json.loads(json.dumps(msgspec.to_builtins(make_record(verdict="suspect", epochs=2))))
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.floats(),
    st.sampled_from([10**400, -(10**30), 1e308, float("nan"), float("inf"), 2**63]),
)
TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["../../x", "/etc/passwd", "\x00", "\ud800", "a" * 300, "", "..", "é\u202e"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NESTED = st.integers(50, 500).map(lambda depth: "[" * depth + "]" * depth)  # for YAML, slow
DEEP = st.integers(50, 4000).map(lambda depth: "[" * depth + "]" * depth)


def dumped(data) -> bytes:
    return json.dumps(data).encode("utf-8", "surrogatepass")


def key_paths(data, path=()):
    """The paths of keys to all values in nested data."""
    yield path
    for key, item in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(item, dict | list):
            yield from key_paths(item, (*path, key))
        else:
            yield (*path, key)


PATHS = sorted(filter(None, key_paths(RECORD)), key=str)


def changed(path, value):
    copy = json.loads(json.dumps(RECORD))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return copy


@FEW
@given(path=st.sampled_from(PATHS), value=JSON)
def test_records(path, value, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_bytes(dumped(changed(path, value)))
    with contextlib.suppress(RnnbenchError):
        record = read_record(file)
        # A record that can be read can be written, to a path inside the records folder.
        write_json(tmp_path / "again.json", record)
        inside = (tmp_path / "records" / f"{record.key}.json").resolve()
        assert len(inside.relative_to(tmp_path / "records").parts) == 3
        assert read_record(tmp_path / "again.json") == record


@FEW
@given(content=st.binary(max_size=60) | DEEP.map(str.encode) | JSON.map(dumped))
def test_files_that_are_not_records(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    for encoded in (content, content.decode("utf-8", "replace").encode("utf-16")):
        file.write_bytes(encoded)
        with pytest.raises(RnnbenchError):
            read_record(file)


EVENTS = ("phase_begin", "phase_end", "epoch", "facts", "error", "finished", "hello", "handshake")
KEYS = (
    "phase start end timed details epoch seconds samples steps loss val_loss measured hardware "
    "environment type message t begin"
)
GOOD = [
    {"event": "phase_end", "phase": "train", "start": 1, "end": 2, "timed": True, "details": {}},
    {"event": "epoch", "epoch": 1, "start": 1, "seconds": 1, "samples": 1, "steps": 1, "loss": 1},
]


def one_of(names: str, values: st.SearchStrategy, **size: int) -> st.SearchStrategy:
    return st.dictionaries(st.sampled_from(names.split()), values, **size)


def event() -> st.SearchStrategy:
    """An event, often with some of the parts that are read."""
    kernel = st.fixed_dictionaries({"found": JSON, "expected": JSON})
    threads = st.fixed_dictionaries({"asked": NUMBERS, "pinned_to": JSON})
    load = st.fixed_dictionaries({"load": JSON | st.fixed_dictionaries({"foreign": JSON})})
    names = "kernel threads framework_devices gpus weights_sha256"
    facts = one_of(names, JSON | kernel | threads, min_size=1, max_size=2)
    return (
        st.builds(
            lambda topic, values: {"event": "facts", topic: values},
            st.sampled_from(["measured", "hardware"]),
            facts,
        )
        | load.map(lambda details: {**GOOD[0], "details": details})
        | st.builds(
            lambda name, fields, base: {**base, **fields, "event": name},
            st.sampled_from(EVENTS),
            one_of(KEYS, JSON, max_size=4),
            st.sampled_from([{}, *GOOD]),
        )
    )


@FEW
@given(events=st.lists(event(), max_size=5), raw=st.binary(max_size=20), code=st.integers(-64, 3))
def test_events(events, raw: bytes, code: int, tmp_path: Path) -> None:
    """Whatever a worker reports, the controller makes a record that can be written and read."""
    lines = [*map(dumped, events), raw]
    outcome = Outcome([e for e in map(parse, lines) if e], exit_code=code, phase="train")
    hardware = {"machine": "box-1", "cores": 1}
    started = "20261121T075000_123456Z"
    trained = Trained(as_run(planned()), "selftest", "here", started, started, hardware, outcome)
    for record in records_of([trained], "round").values():
        write_json(tmp_path / "record.json", record)
        again = read_record(tmp_path / "record.json")
        assert again.machine == "box-1" and again.verdict.status == record.verdict.status


NAMES = TEXT | st.sampled_from(
    ["plan.jsonl", "records/box/x/../../../out.json", "quick/../../y", "a//b", "./x", "a/b", "a"]
)
ATTRIBUTES = st.sampled_from([0, 0o100644 << 16, 0o120777 << 16, 0o040755 << 16, 0o010644 << 16])


@FEW
@given(
    entries=st.lists(st.tuples(NAMES.filter(bool), ATTRIBUTES, st.binary(max_size=30)), max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=3),
)
def test_archives(entries, changes, tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as packed, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, attributes, content in entries:
            info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode())
            info.external_attr = attributes
            packed.writestr(info, content)
    raw = bytearray(file.read_bytes())
    for place, value in changes:
        raw[place % len(raw)] = value
    file.write_bytes(raw)
    with tempfile.TemporaryDirectory() as parent, contextlib.suppress(RnnbenchError):
        folder = Path(parent, "folder")
        folder.mkdir()
        try:
            archive.unpack(file, folder)
        finally:
            assert list(Path(parent).iterdir()) == [folder]
            assert not any(path.is_symlink() for path in folder.rglob("*"))


@settings(FEW, max_examples=25)
@given(
    overrides=st.lists(
        st.one_of(
            TEXT,
            st.builds(
                "{}={}".format,
                st.sampled_from(["model.batch", "seed", "limits.train", "rnn", "+x.y", "alias",
                                 "model.optimizer", "~model.batch", "limits.memory_bytes",
                                 "device.threads", "dataset.path", "model.function"]),
                st.one_of(TEXT, NUMBERS.map(str), NESTED, st.sampled_from(
                    ["range(1,9999999999)", "${x}", "${oc.env:HOME}", "choice(", "???", "null",
                     "glob(*)", "interval(0,1)", "{a:1}", "'", "1e999", "nan"])),
            ),
        ),
        max_size=2,
    )
)  # fmt: skip
def test_overrides(overrides: list[str], tmp_path: Path) -> None:
    conf = [ROOT / "conf", ROOT / "tests/conf"]
    base = load_experiment("small", conf)
    with contextlib.suppress(RnnbenchError):
        for point in expand(base, conf, overrides):
            assert "/" not in point.name


@settings(FEW, max_examples=12)
@given(
    content=st.text(max_size=80)
    | NESTED.map("grids: {}".format)
    | JSON.map(lambda data: f"title: x\ngrids: {json.dumps(data)}")
)
@example(content="grids: &a [*a]")
@example(content="!!python/object:os.system x")
@example(content="a: b: c")
@example(content="\t- x")
def test_experiments(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_bytes(content.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(RnnbenchError):
        make_plan("mine", [ROOT / "conf", ROOT / "tests/conf", tmp_path], ROOT)


PUBLISHED = ROOT / "reports/published/cntk_v2_2017.csv"


@FEW
@given(
    line=st.integers(0, 5),
    column=st.integers(0, 30),
    value=TEXT | NUMBERS.map(str),
    raw=st.none() | st.binary(max_size=80),
)
def test_published(line: int, column: int, value: str, raw: bytes | None, tmp_path: Path) -> None:
    lines = PUBLISHED.read_text(encoding="utf-8").splitlines()[:6]
    fields = lines[line % len(lines)].split(",")
    fields[column % len(fields)] = value
    lines[line % len(lines)] = ",".join(fields)
    content = raw if raw is not None else "\n".join(lines).encode("utf-8", "surrogatepass")
    (tmp_path / PUBLISHED.name).write_bytes(content)
    with contextlib.suppress(RnnbenchError):
        read_published(tmp_path)
