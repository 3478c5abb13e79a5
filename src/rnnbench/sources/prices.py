"""Price lists: dated, sourced prices of one hour of a device (``conf/price/*.yaml``)."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError, converted, suggestion
from rnnbench.project import read_yaml

Kind = Literal["on_demand", "preemptible", "owned"]
KINDS = get_args(Kind)
REMEDY = "see conf/price/README.md."
Text = Annotated[str, Meta(min_length=1)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of one hour of a device.

    - `device`: its choice.
    - `kind`: one of `KINDS`.
    - `usd_per_hour`: US dollars.
    """

    device: str
    kind: Kind
    usd_per_hour: Annotated[float, Meta(gt=0, lt=1e6)]


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dated, sourced price list.

    - `name`: of its file.
    - `prices`: of devices, each in USD per hour.
    - `reference`: the device that costs are relative to; ``""`` if the list names none.
    """

    name: str
    title: Text
    date: Text
    source: Text
    prices: tuple[Price, ...]
    note: str = ""
    reference: str = ""

    def price_of(self, device: str) -> Price | None:
        """The price of a device, or None if the list has none.

        Of several kinds it is the first of `KINDS`.
        """
        for kind in KINDS:
            for price in self.prices:
                if price.device == device and price.kind == kind:
                    return price
        return None


def read_prices(path: Path) -> PriceList:
    """Reads a price list from a YAML file.

    Raises a `ConfigError` whose message is one line.
    """
    data = read_yaml(path)
    if not isinstance(data, dict) or "prices" not in data:
        raise ConfigError("is not a price list: it has no prices.", where=str(path), remedy=REMEDY)

    data["name"] = path.stem
    if isinstance(data.get("date"), int | datetime.date):  # it has no quotes
        data["date"] = str(data["date"])
    prices = converted(data, PriceList, str(path), REMEDY)
    different = {(price.device, price.kind) for price in prices.prices}
    if len(different) < len(prices.prices):
        what = "has two prices for the same device and kind."
        raise ConfigError(what, where=str(path), remedy=REMEDY)
    return prices


def choose_prices(name: str | None, folder: Path, devices: Collection[str]) -> PriceList | None:
    """The price list with the given `name` or path; without a name, the list in `folder` that
    prices most of `devices`, or None if no list prices any.

    Of several such lists, it is the newest; with the same date, the last by name. Raises
    `ConfigError` if there is no list of that name, or a list cannot be read.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name in files:
        return read_prices(files[name])
    if name and name.endswith((".yaml", ".yml")):
        return read_prices(Path(name))
    if name:
        remedy = "name a YAML file."
        if files:
            remedy = f"{suggestion(name, files)}name one of {', '.join(files)}, or a file."
        what = f"there is no price list {name}."
        raise ConfigError(what, where=str(folder), remedy=remedy)

    best = None
    best_rank = (0, "", "")
    for path in files.values():
        prices = read_prices(path)
        count = 0
        for device in devices:
            if prices.price_of(device):
                count += 1
        rank = (count, prices.date, prices.name)
        if count and rank > best_rank:
            best = prices
            best_rank = rank
    return best
