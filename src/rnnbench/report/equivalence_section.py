"""The section "Kernels and equivalence": kernels, certificates, portability of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.report import numbers as n
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView, sorted_by_group
from rnnbench.tables.certificate_tables import (
    CERTIFICATE_COLUMNS,
    certified,
    pairs,
    portability,
)
from rnnbench.tables.certificates import Certificates

NO_CERTIFICATE = (
    "There is no certificate that these implementations compute the same function, so every "
    "speed-up compares times only."
)

PORTABILITY = (
    "Whether an implementation can use weights that another has trained. After a few training "
    "steps, the weights of the row's implementation were loaded into the column's: its accuracy on "
    "held-out samples, and the largest difference from the outputs of the row's implementation. "
    "Weights are portable if accuracies are equal and differences are rounding errors (about "
    "1e-07)."
)
NETWORK = [name for name in (*CERTIFIED_AXES, "variant") if name != "model"]


def equivalence_section(views: Sequence[TableView], certificates: Certificates) -> Section:
    """The `views` of the kernels found in the traced training step, and the contents of the
    certificates."""
    every = certificates.every
    words = ["The worker finds the kernels in the traced training step; it does not rely on names."]
    if not every:
        words.append(NO_CERTIFICATE)
    else:
        words.append(
            "Certified: from the same weights and batch, outputs and gradients agree with a "
            "float64 NumPy reference within the tolerance, and training steps apply the gradients "
            "that they compute, with the thread count of each device. A pair that is not equal has "
            "no speed-up on this page: the ratio of its times is marked ≠, is shown with the "
            "difference, and is not part of the answer. If an implementation does not learn what "
            "it computes, none of its runs is clean."
        )
    views = (
        *views,
        certificates_view(certified(every)),
        pairs_view(pairs(every)),
        portability_view(portability(every)),
    )
    filled = tuple(view for view in views if view.rows)
    return Section("ran", "Kernels and equivalence", tuple(words), (), filled, "words")


def kernels_view(table: pd.DataFrame) -> TableView:
    by = [*NETWORK, "implementation", "kernel", "why_not_cudnn"]
    table = table.assign(variant=_distinguishing_variants(table))
    counted = (
        table.groupby(by, sort=False)
        .agg(device=("device", lambda names: ", ".join(dict.fromkeys(names))), runs=("runs", "sum"))
        .reset_index()
    )
    several = len(counted[NETWORK].drop_duplicates()) > 1
    reasons = [text.split("; ") for text in counted["why_not_cudnn"]]
    common = [
        reason
        for reason in (reasons[0] if len(reasons) > 1 else [])
        if reason and all(reason in row for row in reasons)
    ]
    rows = tuple(
        Row(
            row["implementation"] or "model",
            (row["device"], row["kernel"], _others(row["why_not_cudnn"], common), str(row["runs"])),
            _group(*(row[name] for name in NETWORK)) if several else "",
        )
        for row in counted.to_dict("records")
    )
    columns = (
        Column("device", number=False),
        Column("kernel found", number=False),
        Column("why not cuDNN", number=False, quiet=True),
        Column("runs", quiet=True),
    )
    notes = (f"In every row, cuDNN is also ruled out because {' and '.join(common)}.",)
    rows = sorted_by_group(rows)
    return TableView("kernels", "Kernels", "implementation", columns, rows, notes if common else ())


def _others(reasons: str, common: Sequence[str]) -> str:
    """`reasons` without those in `common`."""
    return "; ".join(text for text in reasons.split("; ") if text not in common) or n.NOTHING


def _distinguishing_variants(table: pd.DataFrame) -> list[str]:
    """The variant of each row whose implementation has another kernel, or another reason, in
    another variant; otherwise ``""``."""
    kernels_of: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    keys = list(zip(table["cell"], table["build"], table["implementation"], strict=True))
    kernels_found = zip(table["kernel"], table["why_not_cudnn"], strict=True)
    for key, kernel in zip(keys, kernels_found, strict=True):
        kernels_of.setdefault(key, set()).add(kernel)
    return [
        variant if len(kernels_of[key]) > 1 else ""
        for key, variant in zip(keys, table["variant"], strict=True)
    ]


def certificates_view(table: pd.DataFrame) -> TableView:
    rows = tuple(
        Row(
            row["rnn"],
            (
                f"{row['status'].replace('_', ' ')}{': ' + row['why'] if row['why'] else ''}",
                _against(row["outputs"], row["tolerance_outputs"]),
                _against(row["gradients"], row["tolerance_gradients"]),
                {True: "yes", False: "no"}.get(row["round_trip"], n.NOTHING),
                row["steps"] or n.NOTHING,
            ),
            _where(row),
        )
        for row in table.to_dict("records")
    )
    columns = (
        Column("status", number=False),
        Column("outputs (allowed)", "relative error against float64"),
        Column("gradients (allowed)", "relative error against float64"),
        Column("weights unchanged by round trip", number=False),
        Column("steps that apply another gradient", "by device (worst)", number=False),
    )
    return TableView("certified", "Certificates", "implementation", columns, sorted_by_group(rows))


def pairs_view(table: pd.DataFrame) -> TableView:
    rows = tuple(
        Row(
            f"{row['a']} and {row['b']}",
            (
                "yes" if row["equal"] else "no: no speed-up; the ratio of times is marked ≠",
                *(n.small(row[name]) for name in ("outputs", "gradients", "loss_curve")),
            ),
            _where(row),
        )
        for row in table.to_dict("records")
    )
    columns = (
        Column("equal", number=False),
        Column("outputs", "largest difference"),
        Column("gradients", "largest difference"),
        Column("loss curve", "largest difference"),
    )
    return TableView("pairs", "Pairs", "pair", columns, sorted_by_group(rows))


def portability_view(table: pd.DataFrame) -> TableView:
    """Weights trained by the row's implementation and used by the column's: accuracy, and
    difference of outputs."""
    served = list(dict.fromkeys(table["served"]))
    rows = []
    for key, group in table.groupby(CERTIFICATE_COLUMNS, sort=False):
        where = _group(*map(str, key))
        for trained, results in group.groupby("trained", sort=False):
            by_user = {row["served"]: row for row in results.to_dict("records")}
            texts = [
                f"{n.share(by_user[name]['accuracy'])} ({n.small(by_user[name]['difference'])})"
                if name in by_user
                else n.NOTHING
                for name in served
            ]
            rows.append(Row(str(trained), tuple(texts), where))
    columns = tuple(Column(name, "used by: accuracy (difference of outputs)") for name in served)
    return TableView("portability", "Portability of weights", "trained by", columns,
                     sorted_by_group(rows), (PORTABILITY,))  # fmt: skip


def _against(error: float | None, allowed: float | None) -> str:
    if not n.is_number(error):
        return n.NOTHING
    return f"{n.small(error)} ({n.small(allowed)})" if n.is_number(allowed) else n.small(error)


def _group(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _where(row: Mapping[Any, Any]) -> str:
    return _group(*(row[name] for name in (*CERTIFIED_AXES, "variant")))
