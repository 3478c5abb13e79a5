"""Determines the length of the turns of a round, in steps.

Standard library only, Python 3.6 syntax. No side effects. All members take the same number of steps
in each turn, so that they train on the same batches in one cycle and end in the same cycle.
Measurements show that many short turns give better results than few long ones, and that a process
needs some milliseconds after sleeping (three steps of 2 ms) to reach its undisturbed speed.
"""

import collections
import math

SLICE_SECONDS = 0.035  # timed work of the fastest member in a turn
LEAD_SECONDS = 0.010  # untimed lead-in of the fastest member in a turn
FIRST = (2, 3)  # the first turn, which determines the length of the others
MOST_TURNS = 200  # per member; more turns gain nothing

Length = collections.namedtuple("Length", "lead steps")
Length.__doc__ = "Number of steps in a turn: the untimed lead-in, then the timed steps."


def length(step_seconds, left):
    """Returns the `Length` of turns for members whose steps take `step_seconds` (a list); `left` is
    the largest number of steps that any member has left."""
    fastest = max(min(step_seconds), 1e-9)
    lead = math.ceil(LEAD_SECONDS / fastest)
    steps = max(1, math.ceil(SLICE_SECONDS / fastest), math.ceil(left / MOST_TURNS) - lead)
    return Length(lead, steps)


def text(single, length=None):
    """Returns the length of a turn as sent to a member; empty, for all remaining steps, if it is
    the `single` member. `length` is None until it has been determined."""
    return "" if single else " {} {}".format(*(length or FIRST))
