"""The process of one runtime: it loads the files, is asked everything once, and is timed in turns.

    python -m rnnworker.serving.answering JOB.json

The job has ``folder`` (as `prepare` left it), ``runtime``, ``threads``, ``function`` (of the model)
and ``only_timed``. The process writes lines of JSON: first what it loaded and how far its answers
are from what they should be, then, for each line ``CASE SECONDS LEAD`` that it reads, the times of
a turn. It ends with its input. Only the runtime and NumPy are imported, so that the peak of memory
is the runtime's.
"""

import glob
import json
import os
import sys
import time
from pathlib import Path

import numpy

from rnnserve import name_of, runtime
from rnnserve.refusals import Refused
from rnnworker.serving import equality

BUSY = 0.05  # of the CPU time of a turn: a thread with less does not count


def main(path):
    with open(path) as file:
        job = json.load(file)
    # Libraries print to standard output; the lines of this process have their own.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(facts):
        lines.write(json.dumps(facts) + "\n")
        lines.flush()

    try:
        server = Server(job)
        said = server.certify(job["only_timed"])
    except Refused as error:
        say({"refused": " ".join(str(error).split())})
        return
    say(said)
    for line in sys.stdin:
        case, seconds, lead = line.split()
        say(server.turn(int(case), float(seconds), float(lead)))


class Server:
    """A runtime with its loaded files, and the cases."""

    def __init__(self, job):
        folder = Path(job["folder"])
        with open(str(folder / "prepared.json")) as file:
            self.prepared = json.load(file)
        self.cases = self.prepared["cases"]
        self.arrays = _read(folder / "cases.npz", len(self.cases))
        self.files = folder / self.prepared["runtimes"][name_of(job["runtime"])]["folder"]
        self.threads = job["threads"]
        if (self.files / "0" / "model.keras").exists() and ".py:" in job["function"]:
            from rnnworker import user_functions

            # The classes of its layers must be known before Keras loads the model.
            user_functions.from_file(job["function"].rpartition(":")[0])
        begun = time.perf_counter()
        self.module = runtime(job["runtime"])
        self.loaded = {}
        first = self.answer_of(0)
        self.load_seconds = time.perf_counter() - begun
        begun = time.perf_counter()
        self.first_answers = first(self.arrays[0][0])
        self.first_seconds = time.perf_counter() - begun

    def answer_of(self, case):
        """The loaded function for the shapes of a case."""
        shape = 0
        if self.module.FIXED_SHAPES:
            shape = self.cases[case]["shape"]
        if shape not in self.loaded:
            self.loaded[shape] = self.module.load(self.files / str(shape), self.threads)
        return self.loaded[shape]

    def certify(self, only_timed):
        """What the process says first."""
        differences = []
        waiting = [self.first_answers]  # the first call of the first case has been made
        for number, case in enumerate(self.cases):
            if only_timed and not case["is_timed"]:
                continue
            asked, expected = self.arrays[number]
            for call, wanted in enumerate(expected):
                try:
                    found = waiting.pop() if waiting else self.answer_of(number)(asked)
                except Refused:
                    raise
                except Exception as error:  # of any class of a library
                    text = " ".join(str(error).split())[:300]
                    differences.append({"case": case["name"], "call": call, "error": text})
                    break
                differences += self.compared(case["name"], call, found, wanted)
        return {
            "code": self.module.CODE.replace("HOW_MANY", str(self.threads)),
            "load_seconds": self.load_seconds,
            "first_seconds": self.first_seconds,
            "bytes": _size(self.files / "0"),
            "differences": differences,
            "versions": _versions(),
        }

    def compared(self, name, call, found, wanted):
        if len(found) != len(wanted):
            text = "{} outputs, not {}".format(len(found), len(wanted))
            return [{"case": name, "call": call, "error": text}]
        facts = []
        for number, (output, right) in enumerate(zip(found, wanted)):
            apart = equality.difference(output, right)
            fact = {"case": name, "call": call, "output": number}
            if apart is None:
                shapes = (numpy.shape(output), numpy.shape(right))
                fact["error"] = "an output has the shape {}, not {}".format(*shapes)
            elif apart == float("inf"):
                fact["error"] = "an output is not finite"
            else:
                fact["difference"] = apart
                fact["bound"] = self.prepared["bounds"][number]
            facts.append(fact)
        return facts

    def turn(self, case, seconds, lead):
        """Answers for `lead` seconds, then for `seconds`, of which each call is timed."""
        answer = self.answer_of(case)
        asked, _ = self.arrays[case]
        clock = time.perf_counter_ns
        slept = time.process_time()
        until = clock() + int(lead * 1e9)
        answer(asked)
        while clock() < until:
            answer(asked)
        threads = _thread_seconds()
        marks = []
        cpu = time.process_time()
        begun = now = clock()
        until = begun + int(seconds * 1e9)
        while now < until:
            answer(asked)
            now = clock()
            marks.append(now)
        cpu = time.process_time() - cpu
        spent = _spent(threads)
        calls = numpy.diff([begun] + marks)
        return {
            "calls": calls.tolist(),
            "cpu": cpu,
            "threads": sum(1 for each in spent if each > BUSY * sum(spent)),
            "slept": slept,
            "peak": _peak_bytes(),
            "ended": time.process_time(),
        }


def _read(path, number):
    """For each case (its inputs, its expected outputs by call)."""
    found = []
    with numpy.load(str(path)) as arrays:
        for case in range(number):
            inputs = _numbered(arrays, "case{}_input".format(case))
            calls = []
            for call in range(2):
                calls.append(_numbered(arrays, "case{}_call{}_output".format(case, call)))
            found.append((inputs, calls))
    return found


def _numbered(arrays, start):
    found = []
    while start + str(len(found)) in arrays:
        found.append(arrays[start + str(len(found))])
    return found


def _thread_seconds():
    seconds = {}
    for path in glob.glob("/proc/self/task/*/schedstat"):
        try:
            with open(path) as file:
                seconds[path] = int(file.read().split()[0]) / 1e9
        except OSError:
            continue  # a thread that has ended
    return seconds


def _spent(before):
    return [seconds - before.get(path, 0.0) for path, seconds in _thread_seconds().items()]


def _peak_bytes():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def _size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _versions():
    """The versions of what was imported."""
    import importlib.metadata

    names = {
        "tensorflow": "tensorflow-cpu",
        "keras": "keras",
        "onnxruntime": "onnxruntime",
        "openvino": "openvino",
        "ai_edge_litert": "ai-edge-litert",
        "torch": "torch",
        "numpy": "numpy",
    }
    found = {}
    for module, name in names.items():
        if module in sys.modules:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = getattr(sys.modules[module], "__version__", "unknown")
    return found


if __name__ == "__main__":
    main(sys.argv[1])
