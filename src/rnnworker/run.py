"""Executes one run: import, data, build, first step, warm-up, train, evaluate, predict."""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from typing import Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence

from rnnworker import cards, machine, processors, user_functions
from rnnworker import events as events_module
from rnnworker.events import Events
from rnnworker.json_types import Job, Json
from rnnworker.turns import Phases, Turns, trainings_of

FAILED_IN_RUN = 3


class Imported(NamedTuple):
    """Facts that a forked process gets from its importer: the seconds that importing took, and the
    bytes of mapped files that a fork does not count until they are used again."""

    seconds: float
    bytes: int


def main(arguments: Sequence[str], imported: Optional[Imported] = None) -> int:
    """Executes the job in the JSON file named on the command line. Returns the exit code: 0, or 3
    after an ``error`` event. `imported` is None unless this process was forked."""
    begin = time.monotonic()
    events = events_module.from_environment()
    with open(arguments[0]) as file:
        job = json.load(file)
    if imported is None:
        die_with_parent(job.get("parent"))

    reads: Dict[str, Callable[[], float]] = {}
    facts: Json = {}
    if job.get("card"):
        facts["card"] = job["card"]
    if job["config"]["device"].get("kind") == "cpu":  # they say nothing about the speed of a GPU
        random_reads = processors.RandomReads(job.get("cores") or ())
        reads["reads"] = random_reads.seconds
        facts["reads_bytes"] = random_reads.bytes
    turns = Turns(events, cards.card_reader(job), **reads)
    phases = Phases(events, turns)

    events.emit("hello", pid=os.getpid(), python=sys.version.split()[0], begin=begin)
    # The runs of a round start in parallel, until their training on separate cores.
    cores = job.get("start_cores") or job.get("cores")
    if cores:
        os.sched_setaffinity(0, cores)
    # The kernel counts private writable memory, so that no process has to watch the timed one.
    # Address space that a framework only reserves does not count; this rules out RLIMIT_AS.
    # RLIMIT_RSS has had no effect since Linux 2.4. GPU memory is not counted.
    limit = job.get("memory_bytes")
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    events.emit("facts", hardware=machine.fingerprint(), measured=facts)
    events.handshake()

    mode = job.get("mode")
    try:
        if mode:
            # Imported by name, so that these modules do not count towards a run's digest.
            module = importlib.import_module("rnnworker." + mode)
            execute = getattr(module, mode)
            execute(job, events, phases)
        else:
            _run(job, events, phases, turns, imported)
    except Exception as error:  # any error of a model or framework ends this run and is reported
        traceback.print_exc()
        model = job["config"].get("model", {}).get("function")
        message = user_functions.one_line(error, model)
        events.emit("error", phase=phases.current, type=type(error).__name__, message=message)
        return FAILED_IN_RUN
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if imported:
        memory += imported.bytes
    events.emit("facts", measured={"peak_memory_bytes": memory})
    events.emit("finished", begin=begin)
    return 0


def _run(
    job: Job,
    events: Events,
    phases: Phases,
    turns: Turns,
    imported: Optional[Imported] = None,
) -> None:
    """Goes through the phases of a run and emits their facts. A training that stopped early,
    because its loss was not finite, is the last phase."""
    from rnnworker import canonical_weights, frameworks

    config = job["config"]
    measure = config["measure"]
    with phases.phase("import") as details:
        if imported is not None:
            details["before_fork"] = imported.seconds
        session = frameworks.open_session(config, job["threads"])
    events.emit("facts", environment=session.environment(), measured=session.device_facts())

    with phases.phase("data") as details:
        details.update(session.load_data(job["dataset"], job.get("pinned_md5")))
    with phases.phase("build") as details:
        details.update(session.build())
        layers = session.layers()
        weights = session.dump_weights()
        session.load_weights(weights)
    facts = session.model_facts(layers)
    facts["weights_sha256"] = canonical_weights.digest(weights)
    events.emit("facts", measured=facts)
    with phases.phase("first_step"):
        session.train_steps(1)
    # Right after the first step: later, TensorFlow's profile omits cheap ops.
    kernel = None
    if hasattr(session, "attest"):
        with phases.phase("attest"):
            kernel = session.attest()
    events.emit("facts", measured={"kernel": kernel})
    with phases.phase("warmup") as details:
        seconds = measure.get("warmup_seconds", 0.0)
        details["steps"] = session.warm_up(measure["warmup_steps"], seconds)

    started: List[str] = []
    if job.get("start_cores", job.get("cores")) != job.get("cores"):
        processors.move(job["cores"])
        events.emit("facts", measured=session.device_facts())
    with phases.phase("train", timed=True) as details:
        # Earlier phases have trained the model, so `fit` restarts from the canonical weights.
        fitted = session.fit(
            lambda epoch: events.emit_soon("epoch", **epoch),
            lambda: started.append(canonical_weights.digest(session.dump_weights())),
            turns,
        )
        details.update(fitted)
    events.emit("facts", measured={"started_weights_sha256": started[0]})
    if details.get("stopped"):
        return
    further = trainings_of(phases.answer)
    if further:
        # Their epochs say nothing new: only the turns are timed again.
        with phases.phase("train_again", timed=True, trainings=further):
            session.fit(lambda epoch: None, lambda: None, turns, again=further)

    for name, call in (("evaluate", session.evaluate), ("predict", session.predict)):
        with phases.phase(name, timed=True) as details:
            details["samples"] = session.validation_samples
            turns.take()
            details.update(_timed_calls(call, measure[name + "_calls"]))

    if job.get("card") and hasattr(session, "card_memory_peak"):
        peak = session.card_memory_peak()
        events.emit("facts", measured={"card_peak_memory_bytes": peak})


def _timed_calls(call: Callable[[], object], number: int) -> Json:
    """Calls `call` once, and then another `number` times. Returns the details of the phase: the
    seconds of the ``first_call`` and its ``result``, and the seconds of all other ``calls``."""
    seconds = []
    results = []
    for _ in range(1 + number):
        start = time.monotonic()
        result = call()
        seconds.append(time.monotonic() - start)
        results.append(result)
    return {
        "first_call": seconds[0],
        "result": results[0],
        "calls": seconds[1:],
    }


def end_fork(code: int) -> NoReturn:
    """Ends this process, which was forked, with the exit code: nothing is left to do, and freeing
    what was imported would make others wait. Removes what TensorFlow's AutoGraph has written for
    this process, as TensorFlow does in one that ends as usual."""
    try:
        for name, module in list(sys.modules.items()):
            if name.startswith("__autograph_generated_file") and module.__file__:
                for path in (module.__file__, importlib.util.cache_from_source(module.__file__)):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # a fork must not go on with what its parent does
        os._exit(code)


def die_with_parent(parent: Optional[int]) -> None:
    """Asks the kernel to kill this process when its parent dies. The parent is the controller, or
    the launcher of a container or environment. If the controller died before this call, the first
    handshake notices it."""
    if parent is not None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
