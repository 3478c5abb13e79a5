"""On which device a network trains fastest."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS, GROUP
from rnnbench.tables.estimates import Measurements, key_of
from rnnbench.tables.frame import ends

OF_A_PLACE = [
    *DEVICE_COLUMNS,
    "variant",
    "name",
    "suspect",
    "seconds",
]
DEVICE_CHOICE_COLUMNS = [
    *GROUP,
    *DEVICE_COLUMNS,
    "name",
    "suspect",
    "seconds",
    "machines",
    *(f"other_{name}" for name in OF_A_PLACE),
    *ends("lead"),
    "lead_shown",
]


def device_choice(measured: Measurements, fastest: pd.DataFrame) -> pd.DataFrame:
    """One row per network that has results on several devices; none if the reference names the
    device, because the contests then compare devices.

    Columns:

    - the group.
    - `device`, `machine`, `name`, `suspect`, `seconds` per epoch of the fastest configuration on
      all devices.
    - `machines`: number of machines with results.
    - the same with the prefix `other_` of the fastest on the second-fastest device.
    - `lead` = seconds of the other / own seconds with its interval, which holds simultaneously for
      all configurations on all devices, among which the fastest was chosen.
    - `lead_shown` (bool: it excludes 1).

    Source: `fastest`.
    """
    if set(DEVICE_COLUMNS) & set(measured.reference):
        return pd.DataFrame(columns=DEVICE_CHOICE_COLUMNS)
    axes = [name for name in GROUP if name not in measured.reference]
    usable = fastest[fastest["contestants"] > 0]
    rows = []
    for _, places in usable.groupby(axes, sort=False):
        if len(places) == 1:
            continue
        ordered = places.sort_values("seconds", kind="stable").to_dict("records")
        best = ordered[0]
        other = ordered[1]
        comparisons = int(places["contestants"].sum()) - 1
        lead = measured.estimates.ratio(key_of(best), key_of(other), comparisons)
        rows.append(
            {
                **{name: best[name] for name in (*GROUP, *OF_A_PLACE)},
                **{f"other_{name}": other[name] for name in OF_A_PLACE},
                "machines": places["machine"].nunique(),
                **lead.columns("lead"),
                "lead_shown": lead.shown_different,
            }
        )
    return pd.DataFrame(rows, columns=DEVICE_CHOICE_COLUMNS)
