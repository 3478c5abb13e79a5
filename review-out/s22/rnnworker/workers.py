"""Workers: their jobs, environments and processes."""

import json
import os

from rnnworker import cards, machine, processors
from rnnworker.forked_workers import may_fork
from rnnworker.members import Member

# Variables that would change a run: numbers of threads (Snakemake exports them) and where Python
# finds its packages.
REMOVED = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "GOTO_NUM_THREADS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
)  # fmt: skip
REMOVED_PREFIXES = ("MLFLOW_", "SNAKEMAKE_")
WORKER = os.path.dirname(os.path.abspath(__file__))


def job_of(config, root, pinned_md5=None, place=0, nvml=None, gpus=None, **more):
    """Returns the job of a worker, on cores chosen here. Raises ValueError if the device has more
    threads than this machine.

    **Arguments:**

    - `config`: has at least the sections ``device`` and ``build``.
    - `root`: the folder to which the path of the dataset is relative.
    - `pinned_md5`: md5 of the dataset from which the worker may load pickles.
    - `place`: the number of the worker in its cohort, whose members start on different cores.
    - `nvml`: path of nvidia-ml-py's module, with which a worker reads the state of its card.
    - `gpus`: those of this host, which are queried if None.
    - `more`: further keys of the job.
    """
    topology, card = processors.read_topology(), card_of(config, gpus)
    cores = processors.for_device(topology, config["device"], card)
    dataset = (config.get("dataset") or {}).get("path")
    job = {
        "config": config,
        "card": card,
        "nvml": nvml if card else None,
        "threads": len(cores),
        "cores": list(cores),
        "start_cores": list(processors.start_cores(topology, cores, place)),
        "dataset": os.path.join(str(root), dataset) if dataset else None,
        "pinned_md5": pinned_md5,
        "memory_bytes": (config.get("limits") or {}).get("memory_bytes"),
        "parent": os.getpid(),
    }
    return dict(job, **more)


def certificate_jobs(planned):
    """Returns the jobs for `planned`, an entry of ``certificates.json``, one per device: the first
    also compares the implementations with each other."""
    sections = {entry["name"]: entry["rnn"] for entry in planned["implementations"]}
    return [
        {
            "mode": "certify",
            "config": dict(planned["config"], device=place["device"]),
            "device": place["name"],
            "batches": place["batches"],
            "implementations": [
                {"name": name, "rnn": sections[name]} for name in place["implementations"]
            ],
            "further_device": number > 0,
        }
        for number, place in enumerate(planned["devices"])
    ]


def card_of(config, gpus=None):
    """Returns the card that a run with `config` uses (`cards.select_card`) among `gpus`, by default
    those of this host; None on a CPU."""
    if config["device"].get("kind") != "gpu":
        return None
    gpus = machine.gpus() if gpus is None else gpus
    return cards.select_card(config["device"], gpus, variables_of(config))


def variables_of(config):
    """Returns the environment variables of this process, and those of the build."""
    return dict(os.environ, **build_variables(config["build"]))


def build_variables(build):
    """Returns the environment variables that a build adds, as strings: booleans become 1 and 0,
    None becomes the empty string."""
    return {
        name: "" if value is None else str(int(value) if isinstance(value, bool) else value)
        for name, value in (build.get("environment") or {}).items()
    }


def environment_of(config, threads, card=None, environment=None):
    """Returns the worker's environment: `environment` (by default this process's) without the
    variables that would change a run; then the build's variables, and `card` as the only visible
    card."""
    kept = {
        name: value
        for name, value in (os.environ if environment is None else environment).items()
        if name not in REMOVED and not name.startswith(REMOVED_PREFIXES)
    }
    kept.update(OMP_NUM_THREADS=str(threads), PYTHONUNBUFFERED="1")
    kept.update(build_variables(config["build"]))
    kept.update(cards.variables(card))
    return kept


def member_of(name, job, launcher, files, limits, **more):
    """Returns the member of a cohort that runs `job`. `launcher`: the first arguments of its
    command, the last one its Python; `files`: beginning of the paths of its files ``log``,
    ``events.jsonl`` and ``job.json``; `limits` and `more`: as in `Member`."""
    job_file = files + "job.json"
    write(job_file, job)
    command = list(launcher) + [WORKER, job_file]
    environment = environment_of(job["config"], job["threads"], job["card"])
    log, events, forks = files + "log", files + "events.jsonl", may_fork(job["config"])
    return Member(name, command, environment, log, events, limits, forks=forks, **more)


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, data):
    """Writes `data` as JSON, atomically."""
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
