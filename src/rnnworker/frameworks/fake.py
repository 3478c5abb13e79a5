"""A framework that sleeps for known durations, which the harness must then measure. ``rnn.fake``
in the config sets the durations and a fault (`DEFAULTS`)."""

import os
import random
import sys
import time

from rnnworker.turns import StepClock

DEFAULTS = {
    "import_seconds": 0.0,
    "build_seconds": 0.0,
    "first_step_seconds": 0.0,
    "step_seconds": 0.0,  # of the warm-up
    "epoch_seconds": 0.1,
    "epoch_steps": 20,  # into which an epoch's seconds are divided
    "validation_seconds": 0.0,
    "evaluate_seconds": 0.01,
    "predict_seconds": 0.01,
    "samples": 1000,
    "spread": 0.0,  # relative, of the epochs, seeded by seed and repeat
    "accuracy": 0.9,
    "fault": None,  # one of FAULTS
    "fault_epoch": 2,
}
FAULTS = (None, "not_finite", "raise", "crash", "hang", "memory", "eat", "eat_native", "garbage")


class Session:
    """Has the same methods as the real sessions. `slept` has the real durations of its sleeps by
    purpose, and of steps also their starts; the details of the phases contain it."""

    validation_samples = 100

    def __init__(self, config, threads):
        self.config = config
        self.threads = threads
        self.times = dict(DEFAULTS, **config["rnn"].get("fake", {}))
        self.slept = {
            "step": [],
            "epoch": [],
            "validation": [],
            "evaluate": [],
            "predict": [],
        }
        unknown = set(self.times) - set(DEFAULTS)
        if unknown:
            raise ValueError("rnn.fake has unknown keys: {}".format(", ".join(sorted(unknown))))
        _sleep(self.times["import_seconds"])

    def environment(self):
        return {"fake": "1", "packages": []}

    def device_facts(self):
        return {"threads": {"asked": self.threads, "pinned_to": sorted(os.sched_getaffinity(0))}}

    def load_data(self, path, pinned_md5=None):
        return {"sizes": {"train": self.times["samples"], "val": self.validation_samples}}

    def build(self):
        _sleep(self.times["build_seconds"])
        return {}

    def layers(self):
        return []

    def load_weights(self, weights):
        pass

    def dump_weights(self):
        return []

    def model_facts(self, layers):
        return {"parameters": 0}

    def train_steps(self, steps):
        first = self.times["first_step_seconds"]
        _sleep(first if steps == 1 else steps * self.times["step_seconds"])

    def warm_up(self, steps, seconds):
        self.train_steps(steps)
        return steps

    def fit(self, on_epoch, on_start, turns, again=0):
        start = time.monotonic()
        on_start()
        first = stopped = None
        model = self.config["model"]
        epochs = model["epochs"]
        steps = self.times["epoch_steps"]
        samples = self.times["samples"]
        accuracy = self.times["accuracy"]
        numbers = list(range(1, epochs + 1)) * max(1, again)
        clock = StepClock(turns, steps, len(numbers))
        for epoch in numbers:
            clock.epoch_begins()
            first = first or clock.start
            fault = None
            if epoch == self.times["fault_epoch"]:
                fault = self.times["fault"]
            _fault(fault)
            seconds = self.times["epoch_seconds"] * self._factor(epoch) / steps
            for _ in range(steps):
                clock.before()
                self.slept["step"].append((time.monotonic(), _sleep(seconds)))
                clock.after()
            self.slept["epoch"].append(sum(took for _, took in self.slept["step"][-steps:]))
            facts = clock.epoch_ends()
            end = last = time.monotonic()
            if again:
                continue
            self.slept["validation"].append(_sleep(self.times["validation_seconds"]))
            loss = 2.0 / (1 + epoch)
            if fault == "not_finite":
                loss = float("nan")
            facts["val_seconds"] = time.monotonic() - end
            facts["epoch"] = epoch
            facts["samples"] = samples
            facts["steps"] = -(-samples // model["batch"])
            for part in ("", "val_"):
                facts[part + "loss"] = loss
                facts[part + "acc"] = accuracy
            on_epoch(facts)
            last = time.monotonic()
            if fault == "not_finite":
                stopped = "loss not finite in epoch {}".format(epoch)
                break
        clock.ends()
        return {
            "set_up": first - start - clock.first_wait,
            "tear_down": time.monotonic() - last,
            "stopped": stopped,
            "slept": {name: self.slept[name] for name in ("step", "epoch", "validation")},
        }

    def evaluate(self):
        self.slept["evaluate"].append(_sleep(self.times["evaluate_seconds"]))
        return {
            "acc": self.times["accuracy"],
            "slept": self.slept["evaluate"],
            "steps": self.slept["step"],  # of all trainings
        }

    def predict(self):
        self.slept["predict"].append(_sleep(self.times["predict_seconds"]))
        return {"slept": self.slept["predict"]}

    def _factor(self, epoch):
        key = "{}-{}-{}".format(self.config["seed"], self.config["repeat"], epoch)
        return max(0.0, 1.0 + self.times["spread"] * random.Random(key).gauss(0.0, 1.0))


def preload(config):
    """Does nothing: a session sleeps in place of its import."""


def _sleep(seconds):
    """Sleeps for `seconds` and returns the real duration by a separate clock. It spins for the
    last 10 ms, in a short sleep for the last 1 ms: a busy host wakes a sleeping process some ms
    late (2.5 ms were observed)."""
    begin = time.perf_counter()
    spin = 0.01 if seconds > 0.02 else 0.001
    if seconds > spin:
        time.sleep(seconds - spin)
    while time.perf_counter() - begin < seconds:
        pass
    return time.perf_counter() - begin


def _fault(fault):
    if fault not in FAULTS:
        raise ValueError("rnn.fake.fault {!r} must be one of {}".format(fault, FAULTS))
    if fault == "raise":
        raise RuntimeError("a made-up fault in the model")
    if fault == "crash":
        os.abort()
    if fault == "hang":
        time.sleep(3600)
    if fault == "garbage":
        os.write(int(os.environ.get("RNNWORKER_EVENTS", "1")), b"\xff\xfe{not json\n")
        sys.stdout.write("\x00garbage\n")
    if fault == "memory":
        raise MemoryError("made-up: out of memory")
    if fault == "eat":
        _exhaust_memory()
    if fault == "eat_native":
        try:
            _exhaust_memory()
        except MemoryError:
            # As C++ code does when nothing catches a failed allocation.
            os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
            os.abort()


def _exhaust_memory():
    """Allocates memory up to the process's limit; gives up at 4 GiB if there is none."""
    blocks = []
    for _ in range(256):
        blocks.append(bytearray(b"x") * 2**24)
    raise RuntimeError("allocated 4 GiB without reaching a memory limit")
