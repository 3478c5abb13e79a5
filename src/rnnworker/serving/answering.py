"""The process of a runtime: it loads its files, is asked everything once, and is timed in turns.

It is forked from an `importer` that has imported what the runtime needs and done nothing else, as
if it had imported that itself. Its job has ``folder`` (as `prepare` left it), ``runtime``,
``threads``, ``function`` (of the model) and ``only_timed`` (whether it is asked only that).
It writes lines of JSON: first what it loaded and how far its answers are from what they should be,
then for each line ``CASE SECONDS LEAD`` that it reads the times of a turn. It ends with its input.

Only the runtime and NumPy are imported in it, so that the peak of memory is the runtime's.
"""

import contextlib
import glob
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy

from rnnserve import FULL_PRECISION, runtime
from rnnserve.refusals import Refused
from rnnworker import proc_files, trees
from rnnworker.serving import accuracy, equality

BUSY = 0.05  # of the CPU time of a turn: a thread with less does not count


def preload(names):
    """Imports modules. One that is missing, the runtime meets again and reports."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main(arguments, imported):
    """The life of the process. `imported`: a `run.Imported`."""
    with open(arguments[0]) as file:
        job = json.load(file)
    lines = os.fdopen(int(os.environ["RNNWORKER_EVENTS"]), "w")

    def say(facts):
        lines.write(json.dumps(facts) + "\n")
        lines.flush()

    try:
        server = Server(job, *imported)
        said = server.certify(job["only_timed"])
    except Refused as error:
        say({"refused": " ".join(str(error).split())})
        return 0
    say(said)
    for line in sys.stdin:
        case, seconds, lead = line.split()
        say(server.turn(int(case), float(seconds), float(lead)))
    return 0


class Server:
    """A runtime with its loaded files, and the cases.

    `imported`: seconds of the imports before the fork; `unseen`: bytes of their memory that do not
    count in this process.
    """

    def __init__(self, job, imported=0.0, unseen=0):
        self.unseen = unseen
        folder = Path(job["folder"])
        with open(str(folder / "prepared.json")) as file:
            self.prepared = json.load(file)
        self.cases = self.prepared["cases"]
        with numpy.load(str(folder / "cases.npz")) as arrays:
            kept = trees.nested(arrays)["cases"]
        # For each case its inputs, and its expected outputs by call.
        self.arrays = [(list(case["inputs"]), case["calls"]) for case in kept]
        self.files = folder / self.prepared["runtimes"][job["runtime"]["name"]]["folder"]
        self.threads = job["threads"]
        if (self.files / "0" / "model.keras").exists() and ".py:" in job["function"]:
            from rnnworker import user_functions

            # The classes of its layers must be known before Keras loads the model.
            user_functions.from_file(job["function"].rpartition(":")[0])
        begun = time.perf_counter()
        chosen = job["runtime"]
        self.runtime = runtime(chosen["implementation"], **chosen["options"])
        self.bounds = self.prepared["bounds"]
        self.is_lower = self.runtime.precision != FULL_PRECISION
        if self.is_lower:
            self.bounds = self.prepared["lower_bounds"][self.runtime.precision]
        self.validation = folder / "validation.npz"
        self.loaded = {}
        first = self.answer_of(0)
        self.load_seconds = imported + time.perf_counter() - begun
        begun = time.perf_counter()
        self.first_answers = first(self.arrays[0][0])
        self.first_seconds = time.perf_counter() - begun

    def answer_of(self, case):
        """The loaded function for the shapes of a case."""
        shape = 0
        if self.runtime.has_fixed_shapes:
            shape = self.cases[case]["shape"]
        if shape not in self.loaded:
            self.loaded[shape] = self.runtime.load(self.files / str(shape), self.threads)
        return self.loaded[shape]

    def certify(self, only_timed):
        """What the process says first. `only_timed`: asks what is timed, once, which another
        process has answered rightly."""
        differences = []
        waiting = [self.first_answers]  # the first call of the first case has been made
        for number, case in enumerate(self.cases):
            if only_timed and not case["is_timed"]:
                continue
            asked, expected = self.arrays[number]
            if only_timed:
                expected = expected[:1]
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
        written = (self.files / "0").rglob("*")
        return {
            "code": self.runtime.code(self.threads),
            "load_seconds": self.load_seconds,
            "first_seconds": self.first_seconds,
            "bytes": sum(each.stat().st_size for each in written if each.is_file()),
            "differences": differences,
            "validation": None if only_timed else self.validated(differences),
            "versions": _versions(),
        }

    def validated(self, differences):
        """How good the answers of a lower precision are, as ``validation`` of ``prepared.json`` has
        it for the model; None if that is unknown, or the `differences` have an error."""
        model = self.prepared.get("validation")
        has_errors = any("error" in fact for fact in differences)
        if not self.is_lower or model is None or has_errors:
            return None
        with numpy.load(str(self.validation)) as arrays:
            kept = trees.nested(arrays)
        batch = len(self.arrays[model["case"]][0][0])
        outputs = accuracy.outputs_of(self.answer_of(model["case"]), kept["inputs"], batch)
        return accuracy.value_of(model["loss"], outputs, kept["labels"])

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
                fact["bound"] = self.bounds[number]
            facts.append(fact)
        return facts

    def turn(self, case, seconds, lead):
        """Answers for `lead` seconds, with one call at least unless they are 0, then for `seconds`,
        of which each call is timed."""
        answer = self.answer_of(case)
        asked, _ = self.arrays[case]
        clock = time.perf_counter_ns
        slept = time.process_time()
        until = clock() + int(lead * 1e9)
        if lead:
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
        spent = [seconds - threads.get(path, 0.0) for path, seconds in _thread_seconds().items()]
        calls = numpy.diff([begun] + marks)
        return {
            "calls": calls.tolist(),
            "cpu": cpu,
            "threads": sum(1 for each in spent if each > BUSY * sum(spent)),
            "slept": slept,
            "peak": proc_files.memory_bytes("VmHWM", "/proc/self/status") + self.unseen,
            "ended": time.process_time(),
        }


def _thread_seconds():
    seconds = {}
    for path in glob.glob("/proc/self/task/*/schedstat"):
        try:
            with open(path) as file:
                seconds[path] = int(file.read().split()[0]) / 1e9
        except OSError:
            continue  # a thread that has ended
    return seconds


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
