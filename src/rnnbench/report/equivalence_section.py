"""The section "Kernels and equivalence": the kernels that ran, and the certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.report import numbers as n
from rnnbench.report.labels import joined
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, TableView, view_of
from rnnbench.tables.certificates import CERTIFICATE_COLUMNS, Certificates, certified, pairs

NO_CERTIFICATE = (
    "There is no certificate that these implementations compute the same function, so every "
    "speed-up compares times only."
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
            "that they compute, on each device and for each size of a batch in the table, last "
            "batches and evaluation included; any other is not certified. A pair that is not equal "
            "has no speed-up on this page: the ratio of its times is marked ≠, is shown with the "
            "difference, and is not part of the answer. If an implementation does not learn what "
            "it computes, none of its runs is clean."
        )
    views = (*views, certificates_view(certified(every)), pairs_view(pairs(every)))
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
    columns = (
        Column("device", "device", number=False),
        Column("kernel found", "kernel", number=False),
        Column("why not cuDNN", lambda r: _others(r["why_not_cudnn"], common), number=False,
               quiet=True),
        Column("runs", "runs", quiet=True),
    )  # fmt: skip
    note = f"In every row, cuDNN is also ruled out because {' and '.join(common)}."
    return view_of(counted, "kernels", "Kernels", "implementation",
                   lambda row: row["implementation"] or "model", columns,
                   lambda row: joined(row[name] for name in NETWORK) if several else "",
                   (note,) if common else ())  # fmt: skip


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


ERROR, DIFFERENCE = "largest relative error against float64", "largest difference"
CERTIFIED_COLUMNS = (
    Column("status", lambda r: ": ".join(filter(None, (r["status"].replace("_", " "), r["why"]))),
           number=False),
    Column("outputs (allowed)", lambda r: _against(r, "outputs"), ERROR),
    Column("gradients (allowed)", lambda r: _against(r, "gradients"), ERROR),
    Column("weights unchanged by round trip",
           lambda r: {True: "yes", False: "no"}.get(r["round_trip"], n.NOTHING), number=False),
    Column("rows of the tested batches", lambda r: r["batches"] or n.NOTHING,
           "by device: training; evaluation", number=False),
    Column("steps that apply another gradient", lambda r: r["steps"] or n.NOTHING,
           "by device (worst)", number=False),
)  # fmt: skip
PAIR_COLUMNS = (
    Column("equal",
           lambda r: "yes" if r["equal"] else
           "no: no speed-up; the ratio of times is marked ≠", number=False),
    Column("outputs", lambda r: n.small(r["outputs"]), DIFFERENCE),
    Column("gradients", lambda r: n.small(r["gradients"]), DIFFERENCE),
    Column("loss curve", lambda r: n.small(r["loss_curve"]), DIFFERENCE),
)  # fmt: skip


def certificates_view(table: pd.DataFrame) -> TableView:
    return view_of(table, "certified", "Certificates", "implementation", "rnn",
                   CERTIFIED_COLUMNS, _certificate)  # fmt: skip


def pairs_view(table: pd.DataFrame) -> TableView:
    return view_of(table, "pairs", "Pairs", "pair", lambda r: f"{r['a']} and {r['b']}",
                   PAIR_COLUMNS, _certificate)  # fmt: skip


def _against(row: Mapping[Any, Any], name: str) -> str:
    error, allowed = row[name], row[f"tolerance_{name}"]
    has_both = n.is_number(error) and n.is_number(allowed)
    return n.small(error) + (f" ({n.small(allowed)})" if has_both else "")


def _certificate(row: Mapping[Any, Any]) -> str:
    return joined(row[name] for name in CERTIFICATE_COLUMNS)
