"""A framework that sleeps for known times: what the harness measures of it must be these times.

``rnn.fake`` in the config says how long and what happens:

    import_seconds, build_seconds, first_step_seconds, step_seconds (warm-up),
    epoch_seconds, validation_seconds, evaluate_seconds, predict_seconds,
    spread (relative, of the epochs, seeded by seed and repeat),
    epoch_steps (into how many steps an epoch's seconds are divided),
    fault: null | not_finite | raise | crash | hang | memory | eat | eat_native | garbage,
    fault_epoch
"""

import os
import random
import sys
import time

from rnnworker.step_clock import StepClock

DEFAULTS = {
    "import_seconds": 0.0,
    "build_seconds": 0.0,
    "first_step_seconds": 0.0,
    "step_seconds": 0.0,
    "epoch_seconds": 0.1,
    "epoch_steps": 20,
    "validation_seconds": 0.0,
    "evaluate_seconds": 0.01,
    "predict_seconds": 0.01,
    "samples": 1000,
    "spread": 0.0,
    "accuracy": 0.9,
    "fault": None,
    "fault_epoch": 2,
}


FAULTS = (
    None,
    "not_finite",
    "raise",
    "crash",
    "hang",
    "memory",
    "eat",
    "eat_native",
    "garbage",
)


class Session:
    """Same methods as the real sessions. `slept` is how long its sleeps really took, by what they
    stand for, of steps with when they began; phases have it in their details."""

    validation_samples = 100

    def __init__(self, config, threads):
        self.config, self.threads = config, threads
        self.times = dict(DEFAULTS, **config["rnn"].get("fake", {}))
        self.slept = {"step": [], "epoch": [], "validation": [], "evaluate": [], "predict": []}
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

    def model_facts(self):
        return {"parameters": 0}

    def train_steps(self, steps):
        _sleep(
            self.times["first_step_seconds"] if steps == 1 else steps * self.times["step_seconds"]
        )

    def warm_up(self, steps, seconds):
        self.train_steps(steps)
        return steps

    def fit(self, on_epoch, on_start, turns):
        start = time.monotonic()
        if on_start is not None:
            on_start()
        stopped = None
        epochs, steps = self.config["model"]["epochs"], self.times["epoch_steps"]
        clock = StepClock(turns, steps, epochs)
        first = None
        for epoch in range(1, epochs + 1):
            clock.epoch_begins()
            first = first or clock.start
            fault = self.times["fault"] if epoch == self.times["fault_epoch"] else None
            _fault(fault)
            seconds = self.times["epoch_seconds"] * self._factor(epoch) / steps
            for _ in range(steps):
                clock.before()
                self.slept["step"].append((time.monotonic(), _sleep(seconds)))
                clock.after()
            slept = sum(took for _, took in self.slept["step"][-steps:])
            self.slept["epoch"].append(slept)
            times, end = clock.epoch_ends(), time.monotonic()
            self.slept["validation"].append(_sleep(self.times["validation_seconds"]))
            loss = float("nan") if fault == "not_finite" else 2.0 / (1 + epoch)
            batch = self.config["model"]["batch"]
            on_epoch(
                dict(
                    times,
                    epoch=epoch,
                    samples=self.times["samples"],
                    steps=-(-self.times["samples"] // batch),
                    loss=loss,
                    acc=self.times["accuracy"],
                    val_loss=loss,
                    val_acc=self.times["accuracy"],
                    val_seconds=time.monotonic() - end,
                )
            )
            last = time.monotonic()
            if fault == "not_finite":
                stopped = "loss not finite in epoch {}".format(epoch)
                break
        clock.ends()
        slept = {name: self.slept[name] for name in ("step", "epoch", "validation")}
        return {
            "set_up": first - start - clock.first_wait,
            "tear_down": time.monotonic() - last,
            "stopped": stopped,
            "slept": slept,
        }

    def evaluate(self):
        self.slept["evaluate"].append(_sleep(self.times["evaluate_seconds"]))
        return {"acc": self.times["accuracy"], "slept": self.slept["evaluate"]}

    def predict(self):
        self.slept["predict"].append(_sleep(self.times["predict_seconds"]))
        return {"slept": self.slept["predict"]}

    def _factor(self, epoch):
        key = "{}-{}-{}".format(self.config["seed"], self.config["repeat"], epoch)
        return max(0.0, 1.0 + self.times["spread"] * random.Random(key).gauss(0.0, 1.0))


def preload(config):
    """Nothing: a session sleeps for its import."""


def _sleep(seconds):
    """Sleeps until the deadline. The last 10 ms are spun, of a short sleep the last one: a busy
    host wakes a sleeper some ms late (2.5 ms were seen). Returns how long it really took, by a
    reading of its own."""
    begin = time.perf_counter()
    spun = 0.01 if seconds > 0.02 else 0.001
    if seconds > spun:
        time.sleep(seconds - spun)
    while time.perf_counter() - begin < seconds:
        pass
    return time.perf_counter() - begin


def _fault(fault):
    if fault not in FAULTS:
        raise ValueError("rnn.fake.fault {!r} is none of {}".format(fault, FAULTS))
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
        _eat()
    if fault == "eat_native":
        try:
            _eat()
        except MemoryError:
            # What C++ does whose allocation nobody catches.
            os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
            os.abort()


def _eat():
    """All the memory it may have; gives up at 4 GiB, where no limit was set."""
    eaten = []
    for _ in range(256):
        eaten.append(bytearray(b"x") * 2**24)
    raise RuntimeError("ate 4 GiB and nobody minded")
