"""The processes of runtimes: each loads its files, is asked everything once, and is timed in turns.

    python -m rnnworker.serving.answering JOB.json

The job has ``folder`` (as `prepare` left it), ``runtimes``, ``imports``, ``threads``, ``function``
(of the model) and ``seconds`` (the longest silence of a runtime). This process
imports what all of its runtimes need and does nothing else, so that each one is forked from it as
if it had imported that itself. It reads lines, NUMBER being a place in ``runtimes``:

- ``start NUMBER CASES``: forks the process of a runtime, which is asked ``all`` cases, or only the
  ``timed`` ones.
- ``turn NUMBER CASE SECONDS LEAD``: it has a turn.
- ``end NUMBER``: it ends, and can be started again.
- ``hear NUMBER``: what the runtime says next is written as a line of JSON: first what it loaded and
  how far its answers are from what they should be, then the times of its turns. ``{"gone": true}``
  and ``{"silent": SECONDS}`` stand for a process that has ended, or was killed for its silence.

It ends with its input, and the runtimes with it. In the process of a runtime, only the runtime and
NumPy are imported, so that the peak of memory is the runtime's.
"""

import contextlib
import glob
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import numpy

from rnnserve import FULL_PRECISION, runtime
from rnnserve.refusals import Refused
from rnnworker.run import die_with_parent, end_fork
from rnnworker.serving import accuracy, equality

END_SECONDS = 1.0
BUSY = 0.05  # of the CPU time of a turn: a thread with less does not count


def main(path):
    with open(path) as file:
        job = json.load(file)
    # Libraries print to standard output; the lines of this process have their own.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    die_with_parent(os.getppid())
    begun = time.perf_counter()
    for name in job["imports"]:
        with contextlib.suppress(ImportError):  # which the runtime meets again and reports
            importlib.import_module(name)
    imported = time.perf_counter() - begun
    children = {}
    for line in sys.stdin:
        word, number, *rest = line.split()
        if word == "start":
            asked = dict(job, runtime=job["runtimes"][int(number)], only_timed=rest == ["timed"])
            children[number] = Child(asked, imported, children)
        elif word == "turn":
            children[number].ask(" ".join(rest))
        elif word == "end":
            children.pop(number).end()
        else:
            lines.write(children[number].hear(job["seconds"]))
            lines.flush()
    for child in children.values():
        child.end()


class Child:
    """The process of a runtime, forked from this one, with the `others` that were forked before."""

    def __init__(self, job, imported, others):
        self.socket, theirs = socket.socketpair()
        resident = _resident_bytes()
        self.pid = os.fork()
        if not self.pid:
            try:
                die_with_parent(os.getppid())
                for other in others.values():
                    other.socket.close()  # else they would not see their end
                self.socket.close()
                log = os.open(
                    os.path.join(job["folder"], job["runtime"]["name"] + ".log"),
                    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
                )
                os.dup2(log, 1)
                os.dup2(log, 2)
                # A fork does not count pages of files until they are used again.
                unseen = resident - _resident_bytes()
                answer_all(job, theirs, imported, unseen)
            except BaseException:
                traceback.print_exc()
            finally:
                end_fork(1)
        theirs.close()
        self.lines = self.socket.makefile("r")

    def ask(self, text):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # which `hear` says
            self.socket.sendall((text + "\n").encode())

    def hear(self, seconds):
        """The next line of the process; it is killed after so many seconds."""
        ready, _, _ = select.select([self.socket], [], [], seconds)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            return json.dumps({"silent": seconds}) + "\n"
        return self.lines.readline() or json.dumps({"gone": True}) + "\n"

    def end(self):
        """Lets the process end with its input. One that still works after `END_SECONDS` is
        killed."""
        with contextlib.suppress(OSError):  # of one that has ended
            self.socket.shutdown(socket.SHUT_WR)
        select.select([self.socket], [], [], END_SECONDS)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.lines.close()
        self.socket.close()


def answer_all(job, connection, imported, unseen):
    """The life of the process of ``job["runtime"]``, which reads and writes lines of JSON."""

    def say(facts):
        connection.sendall((json.dumps(facts) + "\n").encode())

    try:
        server = Server(job, imported, unseen)
        said = server.certify(job["only_timed"])
    except Refused as error:
        say({"refused": " ".join(str(error).split())})
        return
    say(said)
    for line in connection.makefile("r"):
        case, seconds, lead = line.split()
        say(server.turn(int(case), float(seconds), float(lead)))


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
        self.arrays = _read(folder / "cases.npz", len(self.cases))
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
        return {
            "code": self.runtime.code(self.threads),
            "load_seconds": self.load_seconds,
            "first_seconds": self.first_seconds,
            "bytes": _size(self.files / "0"),
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
            asked = _numbered(arrays, "input")
            labels = arrays["labels"]
        batch = len(self.arrays[model["case"]][0][0])
        outputs = accuracy.outputs_of(self.answer_of(model["case"]), asked, batch)
        return accuracy.value_of(model["loss"], outputs, labels)

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
        spent = _spent(threads)
        calls = numpy.diff([begun] + marks)
        return {
            "calls": calls.tolist(),
            "cpu": cpu,
            "threads": sum(1 for each in spent if each > BUSY * sum(spent)),
            "slept": slept,
            "peak": _peak_bytes() + self.unseen,
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


def _resident_bytes():
    """Of memory, with mapped files."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
