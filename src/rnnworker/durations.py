"""How long the runs and certificates of a bundle take, from what earlier ones took."""

import glob
import os
from typing import Dict, Iterable, Optional, Set, Tuple

from rnnworker.json_types import Json, Planned
from rnnworker.workers import read, write

GUESS_SECONDS = 30.0
OUTCOME, CUT = "outcome.json", "cut.json"


class Durations:
    """What is known so far, from this start of a bundle and from earlier ones.

    - `endless`: the names of what used up most of a session without an end: it may hang.
    - `too_long`: name → seconds that one of its phases took without an end.
    """

    def __init__(self, session: Optional[float] = None) -> None:
        """`session`: the seconds after which this start ends; None: never."""
        self.session = session
        self.endless: Set[str] = set()
        self.too_long: Dict[str, float] = {}
        # (Build, configuration) → longest duration.
        self._took: Dict[Tuple[str, str], float] = {}
        # The same of what was ended before it was done.
        self._at_least: Dict[Tuple[str, str], float] = {}

    def recall(self, out: str, planned: Iterable[Planned]) -> None:
        """Notes what the outcomes in the folder `out` say of `planned` runs or certificates."""
        for each in planned:
            attempts = glob.escape(os.path.join(out, each["name"]))
            for attempt in glob.glob(os.path.join(attempts, "*")):
                cut = os.path.join(attempt, CUT)
                if os.path.exists(cut):
                    self._note_cut(each, read(cut))
                    continue
                # A certificate has an outcome for each device, those of further ones in folders.
                pattern = os.path.join(glob.escape(attempt), "**", OUTCOME)
                outcomes = glob.glob(pattern, recursive=True)
                if outcomes:
                    seconds = [read(path).get("seconds") or 0.0 for path in outcomes]
                    self.note(each, sum(seconds))

    def note(self, planned: Planned, took: float) -> None:
        """Notes that `planned` took that many seconds."""
        key = _key(planned)
        self._took[key] = max(took, self._took.get(key, 0.0))

    def keep_cut(
        self,
        folder: str,
        planned: Planned,
        seconds: float,
        phase_seconds: Optional[float] = None,
    ) -> None:
        """Writes into the `folder` of an attempt that it was ended after `seconds`: by the end of
        this start, or because a phase took `phase_seconds`."""
        cut = {
            "seconds": seconds,
            "session": self.session,
            "phase_seconds": phase_seconds,
        }
        write(os.path.join(folder, CUT), cut)
        self._note_cut(planned, cut)

    def _note_cut(self, planned: Planned, cut: Json) -> None:
        key = _key(planned)
        name = planned["name"]
        seconds = cut["seconds"]
        self._at_least[key] = max(seconds, self._at_least.get(key, 0.0))
        if cut["phase_seconds"] is not None:
            self.too_long[name] = max(cut["phase_seconds"], self.too_long.get(name, 0.0))
        if cut["session"] is not None and seconds > cut["session"] / 2:
            self.endless.add(name)

    def needed(self, planned: Planned) -> float:
        """Returns the seconds that `planned` is expected to take: those of the longest of its
        configuration so far, else of its kind in its build, else of anything in its build, else a
        guess; and not less than it took without an end."""
        key = _key(planned)
        build, configuration = key
        at_least = self._at_least.get(key, 0.0)
        if key in self._took:
            return max(at_least, self._took[key])

        kind = os.path.dirname(configuration)
        of_build = []
        of_kind = []
        for (other_build, other), took in self._took.items():
            if other_build == build:
                of_build.append(took)
                if os.path.dirname(other) == kind:
                    of_kind.append(took)
        guess = max(of_kind or of_build or [GUESS_SECONDS])
        return max(at_least, guess)


def _key(planned: Planned) -> Tuple[str, str]:
    """Returns (build, name without the repeat): repeats take the same time."""
    build = planned["config"]["build"]["name"]
    name = planned["name"]
    return build, name.rpartition("-r")[0] or name
