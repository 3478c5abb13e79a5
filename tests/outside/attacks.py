"""Files from outside that are not what they claim to be, as data.

`REFUSED` and `CONTAINED` have a change of the files (name → content) of a valid export of the
machine ``away``; those in `REFUSED` must not be imported, those in `CONTAINED` may be and must have
no effect on the machine ``home``. `ARCHIVES` make the bytes of an archive.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any

EXPERIMENT = "quick"
ESCAPE, RIGHT_TO_LEFT = "\x1b[2J\x1b]0;owned\x07", "\u202e"
HTML = "<script>alert(1)</script><img src=x onerror=alert(2)>"
LINK = "[here](javascript:alert(3))"
FORMULA = "=HYPERLINK(A1)"
OF_STEPS = {
    "turn": [1],
    "cycle": [1],
    "start": [0.1],
    "seconds": [0.1],
    "steps": [9],
    "full": [True],
}
Files = dict[str, bytes]
Change = Callable[[Files], object]


def record_name(files: Files) -> str:
    return next(name for name in files if name.startswith("records/"))


def added(name: str, content: bytes = b"{}") -> Change:
    return lambda files: files.update({name: content})


def site_file(name: str, content: bytes = b"{}") -> Change:
    return added(f"away/{EXPERIMENT}/{name}", content)


def a_round(name: str, result: Any) -> Change:
    """The file of a round of one run."""
    return site_file("rounds/x.json", json.dumps({"members": {name: result}}).encode())


def of_a_run(name: str, result: Any) -> Change:
    """The same in an export of an earlier version."""
    return site_file(f"{name}.json", json.dumps(result).encode())


def edited(part: str, *path: str | int, value: Any) -> Change:
    """Another value in the JSON of the first file whose name contains `part`."""

    def change(files: Files) -> None:
        name = next(name for name in files if part in name)
        data = parent = json.loads(files[name])
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
        files[name] = json.dumps(data).encode()

    return change


in_record = partial(edited, "records/")
in_facts = partial(edited, "/experiment.json")
in_certificate = partial(edited, "/certificates/")


def as_home(files: Files) -> None:
    """All of an export under the name of this machine, dated later."""
    renamed = {
        name.replace("away", "home"): content.replace(b"away", b"home").replace(b"2026", b"2027")
        for name, content in files.items()
    }
    files.clear()
    files.update({name.replace("2026", "2027"): content for name, content in renamed.items()})


def record_of_home(files: Files) -> None:
    """A record of this machine at the other machine's site."""
    name = record_name(files)
    files[name.replace("away", "home")] = files.pop(name).replace(b"away", b"home")


def garbled(files: Files) -> None:
    files[record_name(files)] = files[record_name(files)][:500]


def moved(folder: str) -> Change:
    """Everything of the site at a site of another name."""

    def change(files: Files) -> None:
        for name in [name for name in files if name.startswith("away/")]:
            files[f"{folder}{name.removeprefix('away')}"] = files.pop(name)

    return change


def plan_line(**values: Any) -> Change:
    def change(files: Files) -> None:
        name = f"away/{EXPERIMENT}/plan.jsonl"
        first, *rest = files[name].splitlines()
        files[name] = b"\n".join([json.dumps({**json.loads(first), **values}).encode(), *rest])

    return change


BIG = 10**400
SITES = (
    *("imported", "records", "-x", ".git", "a b", 'a"b', "a;b", "a\nb", "a\\b"),
    *(f"a{RIGHT_TO_LEFT}b", "a" * 300),
)
RESULTS: dict[str, Any] = {
    "a record": {"record": "records/away/x/20270101T000000_000000Z.json"},
    "a record out of the folder": {"record": "../../../etc/passwd"},
    "a result that is a list": [],
    "a record that is a number": {"record": 7},
    "a reason that is a text": {"record": None, "not_needed": HTML, "digest": "d"},
    "a reason with a list": {"record": None, "not_needed": "x", "digest": [1]},
}
REFUSED: dict[str, Change] = {
    "of this machine": as_home,
    "a record of this machine": record_of_home,
    "a certificate of this machine": in_certificate("machine", value="home"),
    **{name: a_round("x-s0-r0", result) for name, result in RESULTS.items()},
    **{f"{name}, of a run": of_a_run("x-s0-r0", result) for name, result in RESULTS.items()},
    "a record at a site without a plan": in_record("site", value="third"),
    "a record at a site above": in_record("site", value="../../x"),
    "a record of another experiment": in_record("experiment", value="../other"),
    "another configuration": in_record("run", "config", "model", "units", value=9999),
    "another digest": in_record("run", "digest", value="0" * 64),
    "no model": in_record("run", "choices", "model", value=""),
    "another machine in the record": in_record("machine", value="third"),
    "another name in the record": in_record("run", "name", value="x-s0-r0"),
    "another start in the record": in_record("started", value="20200101T000000_000000Z"),
    "a newer schema": in_record("schema", value=99),
    "negative seconds": in_record("epochs", 1, "seconds", value=-1.0),
    "no seconds at all": in_record("epochs", 1, "seconds", value=0),
    "seconds of centuries": in_record("epochs", 1, "seconds", value=1e300),
    "seconds too large for a float": in_record("epochs", 1, "seconds", value=BIG),
    "seconds as text": in_record("epochs", 1, "seconds", value="fast"),
    "accuracy of 17": in_record("epochs", 1, "acc", value=17.0),
    "samples as text": in_record("epochs", 1, "samples", value="many"),
    "negative samples": in_record("epochs", 1, "samples", value=-5),
    "too many epochs": in_record("epochs", 1, "epoch", value=10**12),
    "a phase that ends first": in_record("phases", 1, "end", value=-1e9),
    "negative energy": in_record("measured", "joules_per_sample", value=-3.0),
    "memory as text": in_record("measured", "peak_memory_bytes", value="1 GB"),
    "a card that is a number": in_record("measured", "card", value=3),
    "a kernel that is a number": in_record("measured", "kernel", value={"found": 3}),
    "calls that are no list": in_record("phases", -1, "details", value={"calls": 1.5}),
    "turns of two lengths": in_record("turns", value={"turn": [1], "cycle": []}),
    "turns that lack what others used": in_record("turns", value=OF_STEPS),
    "turns without seconds": in_record("turns", value={"turn": [1], "cycle": [1]}),
    "a turn in cycle 10**9": in_record("turns", "cycle", 0, value=10**9),
    "a turn without steps": in_record("turns", "steps", 0, value=0),
    "a turn of negative length": in_record("turns", "seconds", 0, value=-0.1),
    "batch of nothing": in_record("run", "config", "model", "batch", value=0),
    "an optimizer that is a text": in_record("run", "config", "model", "optimizer", value="adam"),
    "a model that is a list": in_record("run", "config", "model", value=[1]),
    "a verdict of its own": in_record("verdict", "status", value="proven"),
    "reasons that are numbers": in_record("verdict", "reasons", value=[1]),
    "a field of its own": in_record("speedup", value=17),
    "deep nesting": in_record("hardware", value=json.loads("[" * 70 + "]" * 70)),
    "a repeat of 10**18": in_record("run", "repeat", value=10**18),
    "a plan that is no plan": site_file("plan.jsonl", b"{}\n"),
    "a plan with a name of another folder": plan_line(name="../../x-s0-r0"),
    "a plan with a name in right-to-left": plan_line(name=f"x{RIGHT_TO_LEFT}y-s0-r0"),
    "a plan with another digest": plan_line(digest="0" * 64),
    "a plan with a round of another folder": plan_line(round="../../x"),
    "facts of another experiment": in_facts("name", value="other"),
    "facts whose title is a list": in_facts("title", value=["x"]),
    "facts whose reference is a text": in_facts("reference", value="keras"),
    "facts whose skipped runs are numbers": in_facts("skipped", value=[1, 2]),
    "certificates.json": site_file("certificates.json"),
    "a mark to retry": site_file("retry/x", b"2027"),
    "an attempt": site_file("attempts/x/1.json"),
    "a tracked run": site_file("tracked/0.json"),
    "a round": site_file("rounds/x.json"),
    "an environment": added("envs/current/bin/python"),
    "an environment of an experiment": added(f"envs/{EXPERIMENT}/plan.jsonl"),
    "the cache": added(f"cache/{EXPERIMENT}/plan.jsonl"),
    "the lock": added(".lock"),
    **{f"a site {name!r}": moved(name) for name in SITES},
    "a file named records": added("records"),
    "a file named like a site": added("away2"),
    "a parent folder": added("../x.json"),
    "an absolute path": added("/tmp/x.json"),
    "a log of no record": added("records/away/x-s0-r0/20270101T000000_000000Z.log"),
    "a record in a deeper folder": added("records/away/x/y/20270101T000000_000000Z.json"),
    "a script": site_file("x.py", b"print(1)"),
    "a probe that is a text file": site_file("probes/cpu_1-current.txt"),
    "a probe in a deeper folder": site_file("probes/work/cpu_1-current.json"),
    "a certificate whose pairs are numbers": in_certificate("pairs", value=[1]),
    "a peak of negative speed": in_facts("peak_tflops", value={"cpu_1": {"float32": -1.0}}),
    "a peak of infinite speed": in_facts("peak_tflops", value={"cpu_1": {"float32": 1e300}}),
    "a peak that is a text": in_facts("peak_tflops", value={"cpu_1": {"float32": "fast"}}),
    "more FLOPs than a float has": in_record("measured", "flops_per_sample", value=BIG),
    "no timesteps": in_record("measured", "timesteps", value=0),
    "a certificate with a negative error": in_certificate(
        "implementations", "keras", "outputs", value=-1.0
    ),
    "a certificate with a status of its own": in_certificate(
        "implementations", "keras", "status", value="perfect"
    ),
    "a certificate with another key": in_certificate("key", value="x"),
    "a record that is cut off": garbled,
    "a record that is NaN": in_record("epochs", 1, "loss", value=float("nan")),
}


def not_needed(files: Files) -> None:
    for name in ("x-s0-r0", record_name(files).split("/")[2]):
        result = {
            "record": None,
            "not_needed": {"halfwidth": 0.01, "until": 0.02, "runs": 10**9},
            "digest": "d",
            "repeats": {LINK: LINK},
        }
        a_round(name, result)(files)
        of_a_run(name, result)(files)


def with_reason(text: str) -> Change:
    reason = {"code": "x", "text": text, "remedy": text}
    return in_record("verdict", value={"status": "suspect", "reasons": [reason]})


def own_axes(**choices: str) -> Change:
    """The choices of all records and of the plan."""

    def change(files: Files) -> None:
        for name in [name for name in files if name.startswith("records/")]:
            data = json.loads(files[name])
            data["run"]["choices"].update(choices)
            files[name] = json.dumps(data).encode()

    return change


CONTAINED: dict[str, Change] = {
    "nothing wrong": lambda files: None,
    "a run without its record": lambda files: files.pop(record_name(files)),
    "runs that were not needed": not_needed,
    "a companion of a round without others": in_record("round", "companion", value=True),
    "a title of HTML": in_facts("title", value=HTML + LINK),
    "a title that controls a terminal": in_facts("title", value=ESCAPE + RIGHT_TO_LEFT),
    "an about of HTML": in_facts("about", value=HTML + LINK + ESCAPE),
    "a title that is a formula": in_facts("title", value=FORMULA),
    "skipped runs of HTML": in_facts("skipped", value=[{"name": HTML, "why": ESCAPE + LINK}]),
    "an obstacle of HTML": in_facts("obstacle", value={"why": HTML + ESCAPE, "remedy": LINK}),
    "another reference": in_facts("reference", value={"rnn": "unrolled"}),
    "another lead": in_facts("lead", value="kernels"),
    "a reason of HTML": with_reason(HTML + LINK),
    "a reason that controls a terminal": with_reason(ESCAPE + RIGHT_TO_LEFT),
    "a reason of 100,000 characters": with_reason("x" * 100_000),
    "an implementation of HTML": own_axes(rnn=HTML),
    "an implementation that is a formula": own_axes(rnn=FORMULA),
    "an implementation that controls a terminal": own_axes(rnn=ESCAPE + RIGHT_TO_LEFT + "x"),
    "a model that is a link": own_axes(model=LINK),
    "hardware of HTML": in_record("hardware", value={"cpu": HTML + ESCAPE, HTML: [LINK]}),
    "an alias of HTML": in_record("run", "alias", value=HTML),
    "the shortest epoch": in_record("epochs", 1, "seconds", value=1e-9),
    "the longest epoch": in_record("epochs", 1, "seconds", value=1e8),
    "the largest energy": in_record("measured", "joules_per_sample", value=1e15),
    "an accuracy of 1": in_record("epochs", -1, "val_acc", value=1.0),
    "a loss of 1e308": in_record("epochs", -1, "val_loss", value=1e308),
    "a certificate that allows everything": in_certificate(
        "tolerance", value={"outputs": 9, "gradients": 9, "loss_curve": 9}
    ),
    "a certificate that says equal": in_certificate("pairs", 0, "outputs", value=5.0),
    "a certificate that says wrong": in_certificate(
        "implementations", "keras", "function_why", value=HTML + ESCAPE
    ),
    "a certificate of no machine": in_certificate("machine", value=None),
    "a peak of HTML": in_facts("peak_tflops", value={HTML + ESCAPE: {HTML: 1.0}}),
}


def entry(name: str, **changes: Any) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    for key, value in changes.items():
        setattr(info, key, value)
    return info


def packed(files: Files, *more: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    """An archive of `files` and `more`, made without rnnbench."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, content in files.items():
            archive.writestr(entry(name), content, zipfile.ZIP_DEFLATED, 1)
        for info, content in more:
            archive.writestr(info, content, info.compress_type)
    return raw.getvalue()


def with_entry(name: str, content: bytes = b"", **changes: Any) -> Callable[[Files], bytes]:
    return lambda files: packed(files, (entry(name, **changes), content))


def with_fields(**values: int) -> Callable[[Files], bytes]:
    """An archive whose last file has other values in its headers than its content."""
    places = {"flags": (6, 8, "<H"), "method": (8, 10, "<H"), "size": (22, 24, "<I")}

    def make(files: Files) -> bytes:
        content = bytearray(packed(files, (entry("away/quick/a"), b"x" * 100)))
        headers = content.rindex(b"PK\x03\x04"), content.rindex(b"PK\x01\x02")
        for field, value in values.items():
            *offsets, form = places[field]
            for header, offset in zip(headers, offsets, strict=True):
                struct.pack_into(form, content, header + offset, value)
        return bytes(content)

    return make


def overlapping(files: Files) -> bytes:
    """A hundred names for the bytes of one file of 60 MiB: 6 GB unpacked."""
    content = packed({"away/quick/000": bytes(60 * 2**20)})
    start = content.rindex(b"PK\x01\x02")
    end = content.rindex(b"PK\x05\x06")
    headers = b"".join(
        content[start:end].replace(b"away/quick/000", f"away/quick/{number:03}".encode())
        for number in range(100)
    )
    tail = bytearray(content[end:])
    struct.pack_into("<HHI", tail, 8, 100, 100, len(headers))
    return content[:start] + headers + bytes(tail)


def damaged(files: Files) -> bytes:
    """One byte in the middle of a file's content is another one."""
    content = bytearray(packed(files))
    content[len(content) // 2] ^= 1
    return bytes(content)


LARGE = 100 * 2**20
TYPE = 16  # the bits of a file's type in the attributes that Unix writes
ARCHIVES: dict[str, Callable[[Files], bytes]] = {
    "nothing": lambda files: b"",
    "not a zip": lambda files: b"\x1f\x8b" + bytes(2000),
    "a zip of nothing": lambda files: packed({}),
    "a header and noise": lambda files: b"PK\x03\x04" + bytes(range(256)) * 40,
    "noise before the end": lambda files: packed(files)[:-22] + bytes(9) + packed(files)[-22:],
    "cut off": lambda files: packed(files)[:-40],
    "half of it": lambda files: packed(files)[: len(packed(files)) // 2],
    "a changed byte": damaged,
    "no plan": lambda files: packed({k: v for k, v in files.items() if "plan" not in k}),
    "plans of two experiments": with_entry("away/other/plan.jsonl"),
    "an experiment in a parent folder": with_entry("away/../plan.jsonl"),
    "a manifest": with_entry("manifest.json", b"{}"),
    "a link": with_entry("records/x", b"/etc/passwd", external_attr=0o120777 << TYPE),
    "a folder": with_entry("away/quick/x/"),
    "a pipe": with_entry("away/quick/x", external_attr=0o010644 << TYPE),
    "a device": with_entry("away/quick/x", external_attr=0o020644 << TYPE),
    "one name twice": with_entry("away/quick/plan.jsonl"),
    "a file in a file": with_entry("away/quick/plan.jsonl/b"),
    "a file in 2,000 folders": with_entry("a/" * 2000 + "a"),
    "an absolute path": with_entry("/etc/x"),
    "a parent folder": with_entry("../x"),
    "a backslash": with_entry("..\\x"),
    "a name with a zero byte": with_entry("away/quick/a\0.json"),
    "a name of 70,000 characters": lambda files: packed(files, (entry("a" * 65_000), b"")),
    "a large file": with_entry("away/quick/a", bytes(LARGE), compress_type=zipfile.ZIP_DEFLATED),
    "many names for one file": overlapping,
    "an announced size of 4 GiB": with_fields(size=2**32 - 2),
    "an announced size that is too small": with_fields(size=10),
    "an encrypted file": with_fields(flags=1),
    "an unknown method": with_fields(method=99),
    "bzip2": with_entry("away/quick/a", bytes(9999), compress_type=zipfile.ZIP_BZIP2),
    "LZMA": with_entry("away/quick/a", bytes(9999), compress_type=zipfile.ZIP_LZMA),
}
