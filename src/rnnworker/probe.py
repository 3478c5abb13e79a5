"""Measures the peak performance of a device in a build, in float32 and in one process: the rates of
large matrix products, of memory traffic, and of the matrix products in the models."""

import re
import statistics
import time
import traceback

from rnnworker import frameworks, machine
from rnnworker.probing import arithmetic, layers

SIZES = {"cpu": (1024, 2048), "gpu": (4096, 8192)}
MANY_THREADS, LARGER = 8, 4096
SAMPLES, LEAST_SAMPLES = 7, 3
SIZE_SECONDS = 1.8
SAMPLE_SECONDS = 0.02
# Number of left operands in a sample of small products; for large products there are fewer.
MOST_AT_ONCE, FLOPS_AT_ONCE = 32, 2e8
ARRAY_BYTES, MOST_ARRAY_BYTES = 128 * 2**20, 512 * 2**20


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
    device = arithmetic(session)
    with phases.phase("large"):
        sizes = SIZES[config["device"]["kind"]]
        if config["device"]["kind"] == "cpu" and job["threads"] >= MANY_THREADS:
            sizes += (LARGER,)
        large = [{"size": size, "gflops": large_rates(device, size)} for size in sizes]
    peak = max(statistics.median(product["gflops"]) for product in large)
    events.emit("facts", probe={"large": large, "peak_gflops": peak})
    with phases.phase("bandwidth"):
        size = array_bytes(machine.fingerprint()["caches"])
        # a += b reads both arrays and writes one.
        rates = sample_rates(device.addition(size // 4), 3 * size / 1e9)
    bandwidth = {"bytes": 3 * size, "gb_per_s": rates}
    events.emit("facts", probe={"bandwidth": bandwidth, "peak_gb_per_s": statistics.median(rates)})
    models, known = [], {}
    for entry in job["models"]:
        with phases.phase("model_{}-{}".format(entry["model"], entry["cell"])):
            try:
                models.append(model_facts(entry, job["threads"], device, known))
            except Exception as error:  # the other models are still to be probed
                traceback.print_exc()
                message = "{}: {}".format(type(error).__name__, error)
                models.append(dict(identity(entry), error=" ".join(message.split())[:500]))
        events.emit("facts", probe={"models": models})


def identity(entry):
    return {name: entry[name] for name in ("model", "cell", "config")}


def model_facts(entry, threads, device, known):
    """Returns one of the probe's ``models``. `known`: (m, k, n) → GFLOP/s, of earlier models."""
    settings = entry["settings"]
    session = frameworks.open_session(settings, threads)
    session.build()
    described, batch = layers.read(session), settings["model"]["batch"]
    products, complete = layers.products_of(described, batch)
    for product in products:
        shape = (product["m"], product["k"], product["n"])
        if shape not in known:
            known[shape] = product_rate(device, *shape)
        product["gflops"] = known[shape]
    steps = [layer["steps"] for layer in described if layer["steps"]]
    return dict(
        identity(entry),
        batch=batch,
        timesteps=max(steps) if steps else None,
        complete=complete,
        error=None,
        flops_per_step=layers.flops_per_step(products),
        bytes_per_step=layers.bytes_per_step(products),
        products=products,
        products_s=sum(p["times"] * layers.flops(p) / (p["gflops"] * 1e9) for p in products),
    )


def large_rates(device, size):
    """Returns GFLOP/s of single products of square matrices, one value per sample."""
    return sample_rates(device.products(size, size, size, 1), 2 * size**3 / 1e9)


def product_rate(device, m, k, n):
    """Returns GFLOP/s of consecutive products of this shape: the median of the samples."""
    flops = 2.0 * m * k * n
    count = int(max(1, min(MOST_AT_ONCE, FLOPS_AT_ONCE // flops)))
    return statistics.median(sample_rates(device.products(m, k, n, count), count * flops / 1e9))


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


def array_bytes(caches):
    """Returns the size of an array beyond every cache: four times the largest, within limits."""
    factors = {"K": 2**10, "M": 2**20, "G": 2**30}
    largest = 0
    for text in caches.values():
        match = re.match(r"(\d+)([KMG])?", str(text))
        if match:
            largest = max(largest, int(match.group(1)) * factors.get(match.group(2), 1))
    return int(max(ARRAY_BYTES, min(4 * largest, MOST_ARRAY_BYTES)))
