"""The tables of the published comparisons, from their own rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnnbench.sources.published import PublishedRow

if TYPE_CHECKING:
    import pandas as pd

K80_P100 = "ASH1998/mnist-CuDNNLSTM"
STEPS = "StackOverflow 49987261"
CPU_GPU = ("minimaxir/deep-learning-cpu-gpu-benchmark", "minimaxir/keras-cntk-benchmark v2")
CPU_ONLY = "Intel i5-4690 (CPU only)"
HOUR = 3600.0


def published_frame(rows: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per published row, columns as its fields, `below` and `place` (device with vCPUs)."""
    import pandas as pd

    from rnnbench.sources.published import COLUMNS

    names = [*COLUMNS, "below", "place"]
    return pd.DataFrame([{name: getattr(r, name) for name in names} for r in rows], columns=names)


def cudnn_speedups(table: pd.DataFrame) -> pd.DataFrame:
    """The K80/P100 comparison: its rows with `speedup` = LSTM's seconds / own on the same device
    (the 7.5× and 12.5×)."""
    own = table[table["source"] == K80_P100].copy()
    generic = own[own["implementation"] == "LSTM"].set_index("device")["train_seconds"]
    own["speedup"] = own["device"].map(generic) / own["train_seconds"]
    return own


def step_table(table: pd.DataFrame) -> pd.DataFrame:
    """The 612,235-sample benchmark: its rows with `us_per_sample`; `speedup_generic` = LSTM's
    seconds on the same device / own (the 14.7×) and `speedup_cpu` = the CPU's / own (the 54.4×).
    """
    own = table[(table["source"] == STEPS) & table["train_samples"].notna()].copy()
    generic = own[own["implementation"] == "LSTM"].set_index("device")["train_seconds"]
    cpu = own.loc[own["device"] == CPU_ONLY, "train_seconds"].iloc[:1]
    seconds = own["train_seconds"]
    own["us_per_sample"] = 1e6 * seconds / own["train_samples"] / own["epochs"]
    own["speedup_generic"] = own["device"].map(generic) / seconds
    own["speedup_cpu"] = cpu.iloc[0] / seconds if len(cpu) else float("nan")
    return own


def user_table(table: pd.DataFrame) -> pd.DataFrame:
    """What another answer to the same question tells, without hardware or model: its rows with
    `speedup` = LSTM's seconds / own, at least that where the own time is a bound (`below`)."""
    own = table[(table["source"] == STEPS) & table["train_samples"].isna()].copy()
    generic = own.loc[own["implementation"] == "LSTM", "train_seconds"].iloc[:1]
    own["speedup"] = generic.iloc[0] / own["train_seconds"] if len(generic) else float("nan")
    return own


def relative_to_k80(table: pd.DataFrame) -> pd.DataFrame:
    """The CPU-against-GPU articles: rows with a price, with `relative` time and `relative_usd`
    cost against the K80 with TensorFlow of the same source and workload, and `usd` =
    seconds / 3600 · price. Rows without such a K80 are left out."""
    own = table[table["source"].isin(CPU_GPU) & table["price_usd_per_hour"].notna()].copy()
    own["usd"] = own["train_seconds"] / HOUR * own["price_usd_per_hour"]
    task = ["source", "workload"]
    k80 = own[(own["device"] == "Tesla K80") & own["framework"].str.startswith("TensorFlow")]
    base = k80.drop_duplicates(task)[[*task, "train_seconds", "usd"]]
    own = own.merge(base, on=task, suffixes=("", "_k80"))
    own["relative"] = own["train_seconds"] / own["train_seconds_k80"]
    own["relative_usd"] = own["usd"] / own["usd_k80"]
    return own
