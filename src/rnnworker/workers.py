"""Workers: their jobs, environments and processes."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from rnnworker import cards, machine, processors
from rnnworker.forked_workers import may_fork
from rnnworker.json_types import Card, Config, Job, Json, Planned
from rnnworker.members import Member

# Variables that would change a run: numbers of threads (Snakemake exports them), where Python finds
# its packages, and what importing TensorFlow 2 sets in a program, with which TensorFlow 1 makes no
# graph.
REMOVED = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "GOTO_NUM_THREADS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
    "TF2_BEHAVIOR",
)  # fmt: skip
REMOVED_PREFIXES = ("MLFLOW_", "SNAKEMAKE_")
WORKER = os.path.dirname(os.path.abspath(__file__))


def job_of(
    config: Config,
    root: Union[str, "os.PathLike[str]"],
    pinned_md5: Optional[str] = None,
    place: int = 0,
    nvml: Optional[str] = None,
    gpus: Optional[List[Json]] = None,
    **more: object,
) -> Json:
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
    topology = processors.read_topology()
    card = card_of(config, gpus)
    cores = processors.for_device(topology, config["device"], card)
    start_cores = processors.start_cores(topology, cores, place)
    dataset = (config.get("dataset") or {}).get("path")
    limits = config.get("limits") or {}

    job: Json = {
        "config": config,
        "card": card,
        "nvml": None,
        "threads": len(cores),
        "cores": list(cores),
        "start_cores": list(start_cores),
        "dataset": None,
        "pinned_md5": pinned_md5,
        "memory_bytes": limits.get("memory_bytes"),
        "parent": os.getpid(),
    }

    if card:
        job["nvml"] = nvml
    if dataset:
        job["dataset"] = os.path.join(str(root), dataset)
    job.update(more)
    return job


def certificate_jobs(planned: Planned) -> List[Json]:
    """Returns the jobs for `planned`, an entry of ``certificates.json``, one per device: the first
    also compares the implementations with each other."""
    sections = {entry["name"]: entry["rnn"] for entry in planned["implementations"]}
    jobs: List[Json] = []
    for place in planned["devices"]:
        names = place["implementations"]
        job = {
            "mode": "certify",
            "config": dict(planned["config"], device=place["device"]),
            "device": place["name"],
            "batches": place["batches"],
            "implementations": [{"name": name, "rnn": sections[name]} for name in names],
            "further_device": bool(jobs),
        }
        jobs.append(job)
    return jobs


def card_of(config: Config, gpus: Optional[List[Json]] = None) -> Optional[Json]:
    """Returns the card that a run with `config` uses (`cards.select_card`) among `gpus`, by default
    those of this host; None on a CPU."""
    if config["device"].get("kind") != "gpu":
        return None
    if gpus is None:
        gpus = machine.gpus()
    return cards.select_card(config["device"], gpus, variables_of(config))


def variables_of(config: Config) -> Dict[str, str]:
    """Returns the environment variables of this process, and those of the build."""
    return dict(os.environ, **build_variables(config["build"]))


def build_variables(build: Config) -> Dict[str, str]:
    """Returns the environment variables that a build adds, as strings: booleans become 1 and 0,
    None becomes the empty string."""
    variables = {}
    for name, value in (build.get("environment") or {}).items():
        if value is None:
            value = ""
        elif isinstance(value, bool):
            value = int(value)
        variables[name] = str(value)
    return variables


def environment_of(
    config: Config,
    threads: int,
    card: Optional[Card] = None,
) -> Dict[str, str]:
    """Returns the worker's environment: this process's without the variables that would change a
    run; then the build's variables, and `card` as the only visible card."""
    kept = {}
    for name, value in os.environ.items():
        if name not in REMOVED and not name.startswith(REMOVED_PREFIXES):
            kept[name] = value
    kept["OMP_NUM_THREADS"] = str(threads)
    kept["PYTHONUNBUFFERED"] = "1"
    kept.update(build_variables(config["build"]))
    kept.update(cards.variables(card))
    return kept


def member_of(
    name: str,
    job: Job,
    launcher: Sequence[str],
    files: str,
    limits: Mapping[str, float],
    **more: Any,
) -> Member:
    """Returns the member of a cohort that runs `job`. `launcher`: the first arguments of its
    command, the last one its Python; `files`: beginning of the paths of its files ``log``,
    ``events.jsonl`` and ``job.json``; `limits` and `more`: as in `Member`."""
    job_file = files + "job.json"
    write(job_file, job)
    config = job["config"]
    return Member(
        name=name,
        command=list(launcher) + [WORKER, job_file],
        environment=environment_of(config, job["threads"], job["card"]),
        log=files + "log",
        events_file=files + "events.jsonl",
        limits=limits,
        forks=may_fork(config),
        **more,
    )


def read(path: str) -> Any:
    """Returns the content of a JSON file."""
    with open(path) as file:
        return json.load(file)


def write(path: str, data: object) -> None:
    """Writes `data` as JSON, atomically."""
    temporary = path + ".new"
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
