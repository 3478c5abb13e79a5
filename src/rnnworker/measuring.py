"""The loop that measures runs (lines of the plan) until all are done or the time is over, those of
a round side by side. A round of the controller and a start of a bundle are subclasses, which know
where files are, when the time is over, and what is kept.
"""

import datetime
import os
import zlib
from typing import (
    AbstractSet,
    Any,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Union,
)

from rnnworker import cards, cohorts, workers
from rnnworker.json_types import Json, Planned
from rnnworker.members import Member, Outcome

STAMP = "%Y%m%dT%H%M%S_%fZ"


class Measured(NamedTuple):
    """A cohort whose workers have ended."""

    runs: List[Planned]  # in starting order
    started: Mapping[str, str]  # name of a run → its timestamp
    outcomes: Mapping[str, Outcome]  # by name; none of a run that was not started
    companions: AbstractSet[str]  # names of those that were measured only for the others' ratios
    # Names of those that ran out of memory next to others, which says nothing about them: they are
    # measured again on their own.
    again: AbstractSet[str]

    @property
    def identity(self) -> str:
        """Names the round on its machine."""
        return "{}/{}".format(self.runs[0].get("round"), min(self.started.values()))


class Measuring:
    """Measures runs. A subclass has these, and the methods that are not implemented here:

    - `references`: names of the runs with which the others of their round are compared.
    - `gpus`: those of this host; None: they are queried.
    """

    references: AbstractSet[str]
    gpus: Optional[List[Json]] = None

    def obstacle(self, run: Planned) -> Optional[Any]:
        """Returns why `run` cannot be measured, or None."""
        raise NotImplementedError

    def skip(self, run: Planned, why: Any) -> None:
        """Notes why `run` is not measured."""
        raise NotImplementedError

    def peaks(self, runs: Sequence[Planned]) -> Sequence[int]:
        """Returns the peak bytes of memory of those of the `runs` for which they are known."""
        return ()

    def fits(self, runs: Sequence[Planned]) -> bool:
        """Returns whether all of `runs` are likely to end in the time that is left."""
        return True

    def prepare(self, runs: Sequence[Planned]) -> None:
        """Makes what comes before the measurement of `runs`, or belongs to those that are done."""

    def folder(self, name: str) -> Union[str, "os.PathLike[str]"]:
        """Returns the folder of the attempts at a run, whose names begin with their timestamps."""
        raise NotImplementedError

    def member(self, run: Planned, started: str, place: int) -> Member:
        """Returns the worker of an attempt at `run`; `place`: its number in the cohort."""
        raise NotImplementedError

    def supervise(self, members: Sequence[Member], seed: int) -> Mapping[str, Outcome]:
        """Runs the workers of a cohort, in turns whose order depends on `seed`."""
        raise NotImplementedError

    def keep(self, measured: Measured) -> AbstractSet[str]:
        """Keeps what a cohort has left, apart from that of `measured.again`. Returns the names of
        the runs that are done now."""
        raise NotImplementedError

    def complete(self, runs: Sequence[Planned], done: Mapping[str, bool]) -> Set[str]:
        """Measures the `runs` that are left, in this order, together with those of their round.
        Returns the names of those for which the time was too short.

        `done`: name of each run that is done → whether it is so even if the reference of its round
        is measured again: only runs that are measured at the same time can be compared."""
        left = {run["name"] for run in runs} - done.keys()
        again = set()
        for run in runs:
            if run["name"] in left & self.references and self.obstacle(run) is None:
                again.add(run.get("round"))
        for run in runs:
            if run.get("round") in again and not done.get(run["name"]):
                left.add(run["name"])

        for run in runs:
            if run["name"] not in left:
                self.prepare([run])
                continue
            why = self.obstacle(run)
            if why is not None:
                left.remove(run["name"])
                self.skip(run, why)
                continue
            cohort = self.cohort_of(run, runs, left)
            self.prepare(cohort)
            if self.fits(cohort):
                left -= self.measure(cohort, left)
        return left

    def cohort_of(
        self,
        run: Planned,
        runs: Sequence[Planned],
        left: AbstractSet[str],
    ) -> List[Planned]:
        """Returns the `runs` that are measured together with `run`: those of its round that are
        `left` (names), and their reference (see `cohorts.cohorts`). Only for a run that takes turns
        and has time left, nvidia-smi, which can take a second, is asked how many fit on a card."""
        if not cohorts.takes_turns(run["config"]) or not self.fits([run]):
            return [run]
        of_round = [other for other in runs if other.get("round") == run.get("round")]
        able = [other for other in of_round if self.obstacle(other) is None]
        missing = [other for other in able if other["name"] in left]
        compared = (other for other in able if other["name"] in self.references)
        contexts = cards.query_contexts(workers.card_of(run["config"], self.gpus))
        for cohort in cohorts.cohorts(
            missing,
            next(compared, None),
            self.peaks(missing),
            card=contexts,
        ):
            if run in cohort and self.fits(cohort):
                return cohort
        return [run]

    def measure(self, cohort: Sequence[Planned], left: AbstractSet[str]) -> Set[str]:
        """Measures the runs of a cohort; those that are not `left` (names) are companions. Returns
        the names of those that are done now."""
        runs = cohorts.starting_order(cohort)
        started = {}
        members = []
        for place, run in enumerate(runs):
            name = run["name"]
            started[name] = start_stamp(self.folder(name))
            members.append(self.member(run, started[name], place))
        seed = zlib.crc32(str(started).encode("ascii"))
        outcomes = self.supervise(members, seed)

        again = {}
        for run in runs:
            outcome = outcomes.get(run["name"])
            if outcome and cohorts.must_retry_alone(run["config"], outcome, len(runs)):
                again[run["name"]] = run
        companions = started.keys() - left
        done = set(self.keep(Measured(runs, started, outcomes, companions, again.keys())))
        for name, run in again.items():
            if name in left:
                done |= self.measure([run], left)
        return done


def start_stamp(folder: Union[str, "os.PathLike[str]"]) -> str:
    """Returns the current time as a timestamp that sorts after every earlier one in `folder`, even
    if the clock has been set back."""
    now = now_as_stamp()
    names = os.listdir(str(folder)) if os.path.isdir(str(folder)) else []
    latest = max((name.split(".")[0] for name in names if name.startswith("2")), default="")
    if now > latest:
        return now
    after = datetime.datetime.strptime(latest, STAMP) + datetime.timedelta(milliseconds=1)
    return after.strftime(STAMP)


def now_as_stamp() -> str:
    """Returns the current time as a timestamp."""
    return datetime.datetime.utcnow().strftime(STAMP)
