"""What a comparison of two configurations found. The text of each value is that of its cell in a
table."""

from __future__ import annotations

from enum import StrEnum

from rnnbench.sources.certificates import NOT_LEARNING


class Outcome(StrEnum):
    """Of the seconds of a configuration and its reference."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    ONE_RUN = "one run: no interval"
    REFERENCE = "reference"
    NO_REFERENCE = "no reference run"
    ANOTHER_FUNCTION = "not the same function"
    NOT_LEARNING = NOT_LEARNING
    WRONG_REFERENCE = f"the reference {NOT_LEARNING}"


# There is a speed-up.
COMPARED = (Outcome.FASTER, Outcome.SLOWER, Outcome.NO_DIFFERENCE, Outcome.ONE_RUN)


class CurvesBy(StrEnum):
    """What judged the loss curves of two configurations."""

    TWIN = "twin"  # 30 times the difference of a training from its twin
    TOLERANCE = "tolerance"  # the fixed one of older certificates
    NOTHING = "nothing"  # no certificate compared them
    NOT_ASKED = ""


class Equality(StrEnum):
    """Of the functions that two configurations compute."""

    CERTIFIED = "certified"
    UNEQUAL = "not equal"
    UNKNOWN = "not certified"
    NOT_ASKED = ""
