"""How long the turns of a round are, in steps. Standard library only, Python 3.6. Pure.

All members take as many steps in each turn, so that in one cycle they train on the same batches
and end in the same one. Measured: many short turns beat few long ones, and a process that has
slept needs some milliseconds (three steps of two) until its steps take what they take undisturbed.
"""

import collections
import math

SLICE_SECONDS = 0.035  # to be timed in a turn, by the fastest member
LEAD_SECONDS = 0.010  # to be trained before, by the fastest member
FIRST = (2, 3)  # the first turn, from which the length of the others is known
MOST_TURNS = 200  # of a member; more would be noted for nothing

Length = collections.namedtuple("Length", "lead steps")
Length.__doc__ = "Steps of a turn: those that are not timed, then those that are."


def length(step_seconds, left):
    """The `Length` of turns where the members' steps take `step_seconds` (a list) and `left` steps
    are to be trained by whoever has most."""
    fastest = max(min(step_seconds), 1e-9)
    lead = math.ceil(LEAD_SECONDS / fastest)
    steps = max(1, math.ceil(SLICE_SECONDS / fastest), math.ceil(left / MOST_TURNS) - lead)
    return Length(lead, steps)


def words(alone, length=None):
    """What a member is told of its turn: nothing, for all that it has left, where it is `alone`.
    `length` is None where it is not known yet."""
    return "" if alone else " {} {}".format(*(length or FIRST))
