"""The axes of a grid, and what follows from each for plans, tables and reports."""

from __future__ import annotations

from typing import Any, NamedTuple

Row = dict[Any, Any]  # of a table: column → its value


class Axis(NamedTuple):
    """An axis: a folder of choices in ``conf/``.

    - `task`: it defines what is trained, not how. Accuracies are compared within a task.
    - `group`: times are compared within one of its choices, unless `reference` names the axis.
    - `certified`: a certificate holds for one of its choices only.
    - `optional`: a run names its choice only if it differs from the model's default.
    """

    name: str
    task: bool = False
    group: bool = False
    certified: bool = False
    optional: bool = False


AXES = (
    Axis("model", task=True, group=True, certified=True),
    Axis("cell", task=True, group=True, certified=True),
    Axis("rnn"),
    Axis("device"),
    Axis("build", group=True, certified=True),
    Axis("dataset", task=True, group=True, optional=True),
)
NAMES = tuple(axis.name for axis in AXES)
REQUIRED = tuple(axis.name for axis in AXES if not axis.optional)
CERTIFIED_AXES = tuple(axis.name for axis in AXES if axis.certified)
# The columns of tables. `variant` is the overrides that change the function or its training.
TASK = [*(axis.name for axis in AXES if axis.task), "variant"]
GROUP = [*(axis.name for axis in AXES if axis.group), "variant"]
DEVICE_COLUMNS = ["device", "machine"]
PLACE = [*DEVICE_COLUMNS, *(name for name in GROUP if name not in TASK)]
CONFIGURATION = [*GROUP, "rnn", "options", "alias", "implementation", *DEVICE_COLUMNS]
# The columns that identify a configuration, and that a reference may name.
KEY = [name for name in CONFIGURATION if name != "implementation"]
# Keys of a section that only describe its choice.
DOCUMENTATION = (
    "about",
    "source",
    "requires",
    "cells",
    "arrays",
    "title",
    "url",
    "replaces",
    "peak_tflops",
)
