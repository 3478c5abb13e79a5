"""What a device can do in a build: rates of large matrix products, of memory, and of the very
products that the models are made of, in float32. One process, in the build's own session."""

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
# A sample of small products goes over this many left sides, or fewer where they are large.
MOST_AT_ONCE, FLOPS_AT_ONCE = 32, 2e8
ARRAY_BYTES, MOST_ARRAY_BYTES = 128 * 2**20, 512 * 2**20


def probe(job, events, phases):
    """Emits ``facts`` with a ``probe``: the parts of ARCHITECTURE.md's probe that the worker knows.

    `job`: ``config`` (of any run on the device and build), ``models`` (list of ``{"model", "cell",
    "config", "settings"}``, the last being a run's config), ``threads``.
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
    peak = max(statistics.median(one["gflops"]) for one in large)
    events.emit("facts", probe={"large": large, "peak_gflops": peak})
    with phases.phase("bandwidth"):
        size = array_bytes(machine.fingerprint()["caches"])
        # One array is read, one is read and written.
        rates = sampled(device.adding(size // 4), 3 * size / 1e9)
    found = {"bandwidth": {"bytes": 3 * size, "gb_per_s": rates}}
    events.emit("facts", probe=dict(found, peak_gb_per_s=statistics.median(rates)))
    models, known = [], {}
    for entry in job["models"]:
        with phases.phase("model_{}-{}".format(entry["model"], entry["cell"])):
            try:
                models.append(model_facts(entry, job["threads"], device, known))
            except Exception as error:  # one model that fails is no fault of the others
                traceback.print_exc()
                words = "{}: {}".format(type(error).__name__, error)
                models.append(dict(named(entry), error=" ".join(words.split())[:500]))
        events.emit("facts", probe={"models": models})


def named(entry):
    return {name: entry[name] for name in ("model", "cell", "config")}


def model_facts(entry, threads, device, known):
    """One of the probe's ``models``. `known`: (m, k, n) → GFLOP/s, of the models before."""
    settings = entry["settings"]
    session = frameworks.open_session(settings, threads)
    session.build()
    described, batch = layers.read(session), settings["model"]["batch"]
    products, complete = layers.products_of(described, batch)
    for one in products:
        shape = (one["m"], one["k"], one["n"])
        if shape not in known:
            known[shape] = product_rate(device, *shape)
        one["gflops"] = known[shape]
    steps = [layer["steps"] for layer in described if layer["steps"]]
    return dict(
        named(entry),
        batch=batch,
        timesteps=max(steps) if steps else None,
        complete=complete,
        error=None,
        flops_per_step=layers.flops_per_step(products),
        bytes_per_step=layers.bytes_per_step(products),
        products=products,
        products_s=sum(
            one["times"] * layers.flops(one) / (one["gflops"] * 1e9) for one in products
        ),
    )


def large_rates(device, size):
    """GFLOP/s of single products of square matrices, one per sample."""
    return sampled(device.products(size, size, size, 1), 2 * size**3 / 1e9)


def product_rate(device, m, k, n):
    """GFLOP/s of products of this shape that follow each other: the median of the samples."""
    flops = 2.0 * m * k * n
    count = int(max(1, min(MOST_AT_ONCE, FLOPS_AT_ONCE // flops)))
    return statistics.median(sampled(device.products(m, k, n, count), count * flops / 1e9))


def sampled(run, work):
    """`work` per second, once per sample. A sample is as many calls as take `SAMPLE_SECONDS`;
    there are `SAMPLES` of them, or fewer, at least `LEAST_SAMPLES`, within `SIZE_SECONDS`."""
    run()
    begin = time.monotonic()
    run()
    once = time.monotonic() - begin
    calls = max(1, int(SAMPLE_SECONDS / max(once, 1e-6)))
    rates, deadline = [], time.monotonic() + SIZE_SECONDS
    while len(rates) < LEAST_SAMPLES or (len(rates) < SAMPLES and time.monotonic() < deadline):
        begin = time.monotonic()
        for _ in range(calls):
            run()
        rates.append(work * calls / (time.monotonic() - begin))
    return rates


def array_bytes(caches):
    """The size of an array that no cache holds: four times the largest, within limits."""
    factors = {"K": 2**10, "M": 2**20, "G": 2**30}
    largest = 0
    for text in caches.values():
        match = re.match(r"(\d+)([KMG])?", str(text))
        if match:
            largest = max(largest, int(match.group(1)) * factors.get(match.group(2), 1))
    return int(max(ARRAY_BYTES, min(4 * largest, MOST_ARRAY_BYTES)))
