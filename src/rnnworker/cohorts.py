"""Which runs of a round (lines of the plan) are alive at the same time, in which starting order."""

import random
from typing import List, Mapping, Optional, Sequence

from rnnworker.json_types import Card, Config, Planned
from rnnworker.members import SIGKILLED, Outcome
from rnnworker.proc_files import available_bytes

GUESS_BYTES = 1500000000  # memory of a run that has never been measured
GUESS_BYTES_OF_CARD = 4000000000  # GPU memory of such a run, including its context
SHARE = 0.7  # of the available memory
MOST = 16


def takes_turns(config: Config) -> bool:
    """Returns whether a run with `config` takes turns with others. On a GPU, it does so only if the
    device has ``turns: true``, because two contexts on one GPU may disturb each other unless
    measurements on that GPU show otherwise."""
    measure = config.get("measure") or {}
    if not measure.get("turns", True):
        return False
    return not _is_on_gpu(config) or config["device"].get("turns") is True


def _is_on_gpu(config: Config) -> bool:
    kind: Optional[str] = config["device"].get("kind")
    return kind == "gpu"


def reference_of(
    planned: Sequence[Planned],
    reference: Optional[Mapping[str, str]],
) -> Optional[Planned]:
    """Returns the run of a round with which the others are compared, according to the experiment's
    `reference` (axis or option → choice); None if there is none."""
    if not reference:
        return None
    wanted = {"alias": ""}
    wanted.update(reference)
    for run in planned:
        choices = {key: str(value) for key, value in run["overrides"].items()}
        choices.update(run["choices"])
        choices["alias"] = run["alias"] or ""
        if all(choices.get(axis) == choice for axis, choice in wanted.items()):
            return run
    return None


def cohorts(
    missing: Sequence[Planned],
    reference: Optional[Planned],
    peaks: Sequence[int] = (),
    available: Optional[int] = None,
    card: Optional[Card] = None,
) -> List[List[Planned]]:
    """Returns the `missing` runs in cohorts, whose members are alive at the same time.

    Each cohort includes the `reference`, since ratios are taken within a cohort. A run that does
    not take turns (``measure.turns: false``, or on a GPU without memory for two) is a cohort on its
    own. `peaks`: peak bytes of those that were measured before; `available`: bytes of free memory,
    read from this host if None; `card`: as `cards.query_contexts` returns it."""
    on_card = 1
    # With another compute mode, the card admits only one process.
    if card is not None and card["mode"] == "Default":
        on_card = memory_capacity(card["free_bytes"], GUESS_BYTES_OF_CARD)

    def in_turns(run: Planned) -> bool:
        if _is_on_gpu(run["config"]) and on_card == 1:
            return False
        return takes_turns(run["config"])

    together = []
    groups = []
    size = max_size(missing, peaks, available)
    for run in missing:
        if not in_turns(run):
            groups.append([run])
            continue
        together.append(run)
        if _is_on_gpu(run["config"]):
            size = min(size, on_card)

    in_each: List[Planned] = []
    if reference is not None and in_turns(reference):
        others = [run for run in together if run["name"] != reference["name"]]
        if together and not others:
            return groups + [[reference]]
        together = others
        in_each = [reference]
        size = max(1, size - 1)
    for start in range(0, len(together), size):
        groups.append(in_each + together[start : start + size])
    return groups


def max_size(
    runs: Sequence[Planned],
    peaks: Sequence[int] = (),
    available: Optional[int] = None,
) -> int:
    """Returns how many of `runs` may be alive at the same time. `peaks`: the known peak bytes of
    some of them; each of the others is expected to need `GUESS_BYTES`."""
    if available is None:
        available = available_bytes()
    largest = max(peaks, default=GUESS_BYTES)
    if len(peaks) < len(runs):
        largest = max(largest, GUESS_BYTES)

    size = memory_capacity(available, largest)
    for run in runs:
        limits = run["config"].get("limits") or {}
        size = min(size, limits.get("members") or MOST)
    return size


def memory_capacity(available: Optional[int], each: int = GUESS_BYTES) -> int:
    """Returns how many runs of `each` bytes may be alive at the same time with `available` bytes of
    free memory (None: unknown)."""
    if available is None:
        return MOST
    fitting = int(SHARE * available // each)
    return max(1, min(MOST, fitting))


def starting_order(runs: Sequence[Planned]) -> List[Planned]:
    """Returns the `runs` of one cohort in the order in which they start. The order is random, and
    that of every second repeat is the reverse of the previous one: the process that starts first
    trains more slowly throughout (by 0.4 % on one machine), and it must not always be the same run,
    least of all the reference."""
    if not runs:
        return []

    def name_without_repeat(run: Planned) -> str:
        name: str = run["name"]
        return name.rpartition("-r")[0]

    ordered = sorted(runs, key=name_without_repeat)
    repeat = ordered[0].get("repeat", 0)
    seed = [name_without_repeat(run) for run in ordered]
    seed.append(str(repeat // 2))
    random.Random(" ".join(seed)).shuffle(ordered)
    if repeat % 2:
        ordered.reverse()
    return ordered


def must_retry_alone(config: Config, outcome: Outcome, size: int) -> bool:
    """Returns whether a run with `config` of a cohort of `size` runs is measured again on its own:
    it ran out of memory next to others, which does not mean that it needs too much by itself. A run
    that reached a limit of its own is not."""
    limit = (config.get("limits") or {}).get("memory_bytes")
    by_kernel = outcome.exit_code == SIGKILLED
    return size > 1 and outcome.out_of_memory and (by_kernel or limit is None)
