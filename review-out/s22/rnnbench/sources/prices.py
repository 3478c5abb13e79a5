"""Price lists: dated, sourced prices of one hour of a device (``conf/price/*.yaml``)."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError, converted, suggestion

Kind = Literal["on_demand", "preemptible", "owned"]
KINDS = get_args(Kind)
REMEDY = "see conf/price/README.md."
Text = Annotated[str, Meta(min_length=1)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price in USD of one hour of `device`; `kind` is one of `KINDS`."""

    device: str
    kind: Kind
    usd_per_hour: Annotated[float, Meta(gt=0, lt=1e6)]


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dated, sourced price list. `reference` is the device that costs are relative to (``""`` if
    the list names none)."""

    name: str
    title: Text
    date: Text
    source: Text
    prices: tuple[Price, ...]
    note: str = ""
    reference: str = ""

    def price_of(self, device: str) -> Price | None:
        """The first price of `device` that the list has of on demand, preemptible and owned, or
        None."""
        prices = (price for price in self.prices if price.device == device)
        return min(prices, key=lambda price: KINDS.index(price.kind), default=None)


def read_prices(path: Path) -> PriceList:
    """Reads a price list from a YAML file. Raises a `ConfigError` whose message is one line."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = f"cannot be read as a price list ({error})."
        raise ConfigError(message, where=str(path), remedy=REMEDY) from error
    if not isinstance(data, dict) or "prices" not in data:
        raise ConfigError("is not a price list: it has no prices.", where=str(path), remedy=REMEDY)
    is_unquoted_date = isinstance(data.get("date"), int | datetime.date)
    data |= {"name": path.stem} | ({"date": str(data["date"])} if is_unquoted_date else {})
    prices = converted(data, PriceList, str(path), REMEDY)
    if len({(price.device, price.kind) for price in prices.prices}) < len(prices.prices):
        raise ConfigError(
            "has two prices for the same device and kind.", where=str(path), remedy=REMEDY
        )
    return prices


def choose_prices(name: str | None, folder: Path, devices: Collection[str]) -> PriceList | None:
    """The price list with the given `name` or path. Without a name, the list in `folder` that
    prices most of `devices` (of several, the newest; with the same date, the last by name); None if
    no list prices any."""
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name in files:
        return read_prices(files[name])
    if name and not name.endswith((".yaml", ".yml")):
        raise ConfigError(
            f"there is no price list {name}.",
            where=str(folder),
            remedy=f"{suggestion(name, files)}name one of {', '.join(files)}, or a file."
            if files
            else "name a YAML file.",
        )
    if name:
        return read_prices(Path(name))
    lists = [read_prices(path) for path in files.values()]
    priced = {each.name: sum(map(bool, map(each.price_of, devices))) for each in lists}
    usable = [each for each in lists if priced[each.name]]
    return max(usable, key=lambda each: (priced[each.name], each.date, each.name), default=None)
