"""The tables of the published comparisons, computed from the published rows only."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rnnbench.sources.published import PublishedRow

K80_P100 = "ASH1998/mnist-CuDNNLSTM"
STEPS = "StackOverflow 49987261"
CPU_GPU = ("minimaxir/deep-learning-cpu-gpu-benchmark", "minimaxir/keras-cntk-benchmark v2")
CPU_ONLY = "Intel i5-4690 (CPU only)"
HOUR = 3600.0


def published_frame(rows: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per published row. Columns: its fields, `below`, `place` (device with vCPUs)."""
    from rnnbench.sources.published import COLUMNS

    names = [*COLUMNS, "below", "place"]
    return pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)


def cudnn_speedups(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the K80/P100 comparison, with `speedup` = seconds of LSTM / own seconds on the
    same device (the source's 7.5× and 12.5×)."""
    own = table[table["source"] == K80_P100].copy()
    generic = own[own["implementation"] == "LSTM"].set_index("device")["train_seconds"]
    own["speedup"] = own["device"].map(generic) / own["train_seconds"]
    return own


def step_table(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the 612,235-sample benchmark, with `us_per_sample`, `speedup_generic` = seconds
    of LSTM on the same device / own seconds (the source's 14.7×) and `speedup_cpu` = seconds of the
    CPU / own seconds (the source's 54.4×)."""
    own = table[(table["source"] == STEPS) & table["train_samples"].notna()].copy()
    generic = own[own["implementation"] == "LSTM"].set_index("device")["train_seconds"]
    cpu = own.loc[own["device"] == CPU_ONLY, "train_seconds"].iloc[:1]
    seconds = own["train_seconds"]
    own["us_per_sample"] = 1e6 * seconds / own["train_samples"] / own["epochs"]
    own["speedup_generic"] = own["device"].map(generic) / seconds
    own["speedup_cpu"] = cpu.iloc[0] / seconds if len(cpu) else float("nan")
    return own


def user_table(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of another answer to the same question, which names neither hardware nor model, with
    `speedup` = seconds of LSTM / own seconds (a lower bound if the own time is `below` a limit)."""
    own = table[(table["source"] == STEPS) & table["train_samples"].isna()].copy()
    generic = own.loc[own["implementation"] == "LSTM", "train_seconds"].iloc[:1]
    own["speedup"] = generic.iloc[0] / own["train_seconds"] if len(generic) else float("nan")
    return own


def relative_to_k80(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the CPU-against-GPU articles that have a price, with `usd` = seconds / 3600 ·
    price, and with `relative` time and `relative_usd` cost relative to the K80 with TensorFlow of
    the same source and workload. Rows without such a K80 are omitted."""
    own = table[table["source"].isin(CPU_GPU) & table["price_usd_per_hour"].notna()].copy()
    own["usd"] = own["train_seconds"] / HOUR * own["price_usd_per_hour"]
    task = ["source", "workload"]
    k80 = own[(own["device"] == "Tesla K80") & own["framework"].str.startswith("TensorFlow")]
    base = k80.drop_duplicates(task)[[*task, "train_seconds", "usd"]]
    own = own.merge(base, on=task, suffixes=("", "_k80"))
    own["relative"] = own["train_seconds"] / own["train_seconds_k80"]
    own["relative_usd"] = own["usd"] / own["usd_k80"]
    return own
