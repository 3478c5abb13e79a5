"""Measures the peak performance of a device in a build, in float32 and in one process: the rates of
large matrix products. Also counts the work of the models' products."""

import statistics
import time
import traceback

from rnnworker import frameworks, products

SIZES = {"cpu": (1024, 2048), "gpu": (4096, 8192)}
MANY_THREADS, LARGER = 8, 4096
SAMPLES, LEAST_SAMPLES = 7, 3
SIZE_SECONDS = 1.8
SAMPLE_SECONDS = 0.02


def probe(job, events, phases):
    """Emits ``facts`` with a ``probe``: the worker's parts of the probe (see docs/formats.md).

    `job`: ``config`` (of any run on the device and build), ``models`` (list of ``{"model", "cell",
    "config", "settings"}``; ``settings`` is a run's config), ``threads``.
    """
    config = job["config"]
    with phases.phase("import"):
        session = frameworks.open_session(config, job["threads"])
        session.set_tf32(False)
    events.emit("facts", measured=session.device_facts())
    with phases.phase("large"):
        sizes = SIZES[config["device"]["kind"]]
        if config["device"]["kind"] == "cpu" and job["threads"] >= MANY_THREADS:
            sizes += (LARGER,)
        large = [{"size": size, "gflops": large_rates(session, size)} for size in sizes]
    peak = max(statistics.median(product["gflops"]) for product in large)
    events.emit("facts", probe={"large": large, "peak_gflops": peak})
    models = []
    for entry in job["models"]:
        with phases.phase("model_{}-{}".format(entry["model"], entry["cell"])):
            try:
                models.append(model_facts(entry, job["threads"]))
            except Exception as error:  # the other models are still to be probed
                traceback.print_exc()
                message = "{}: {}".format(type(error).__name__, error)
                models.append(dict(identity(entry), error=" ".join(message.split())[:500]))
        events.emit("facts", probe={"models": models})


def identity(entry):
    return {name: entry[name] for name in ("model", "cell", "config")}


def model_facts(entry, threads):
    """Returns one of the probe's ``models``."""
    settings = entry["settings"]
    session = frameworks.open_session(settings, threads)
    session.build()
    described, batch = products.weighted_layers(session), settings["model"]["batch"]
    forward, complete = products.flops_of(described, batch)
    steps = [layer["steps"] for layer in described if layer["steps"]]
    return dict(
        identity(entry),
        batch=batch,
        timesteps=max(steps) if steps else None,
        complete=complete,
        error=None,
        flops_per_step={"forward": forward, "training": 3 * forward},
    )


def large_rates(session, size):
    """Returns GFLOP/s of single products of square matrices, one value per sample."""
    return sample_rates(products.square(session, size), 2 * size**3 / 1e9)


def sample_rates(run, work):
    """Returns `work` per second for each sample, which consists of calls for `SAMPLE_SECONDS`: up
    to `SAMPLES` samples within `SIZE_SECONDS`, but at least `LEAST_SAMPLES`."""
    run()
    begin = time.monotonic()
    run()
    seconds_per_call = time.monotonic() - begin
    calls = max(1, int(SAMPLE_SECONDS / max(seconds_per_call, 1e-6)))
    rates, deadline = [], time.monotonic() + SIZE_SECONDS
    while len(rates) < LEAST_SAMPLES or (len(rates) < SAMPLES and time.monotonic() < deadline):
        begin = time.monotonic()
        for _ in range(calls):
            run()
        rates.append(work * calls / (time.monotonic() - begin))
    return rates
