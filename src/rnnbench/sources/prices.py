"""Price lists: dated, sourced prices of one hour of a device (``conf/price/*.yaml``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError

KINDS = ("on_demand", "preemptible", "owned")
REQUIRED = ("title", "date", "source", "prices")
OPTIONAL = ("note", "reference")


@dataclass(frozen=True)
class Price:
    """The price in USD of one hour of `device`; `kind` is one of `KINDS`."""

    device: str
    kind: str
    usd_per_hour: float


@dataclass(frozen=True)
class PriceList:
    """A dated, sourced price list. `reference` is the device that costs are relative to (``""`` if
    the list names none)."""

    name: str
    title: str
    date: str
    source: str
    prices: tuple[Price, ...]
    note: str = ""
    reference: str = ""

    def price_of(self, device: str, kind: str = "") -> Price | None:
        """The price of `device` of the given `kind`. Without a `kind`, the first that the list has
        of on demand, preemptible and owned; None if it has none."""
        by_kind = {price.kind: price for price in self.prices if price.device == device}
        kinds = (kind,) if kind else KINDS
        return next((by_kind[name] for name in kinds if name in by_kind), None)


def read_prices(path: Path) -> PriceList:
    """Reads a price list from a YAML file. Raises a `ConfigError` whose message is one line."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"cannot be read as a price list ({' '.join(str(error).split())}).",
            where=str(path),
            remedy="see conf/price/README.md for an example.",
        ) from error
    if not isinstance(data, dict):
        raise _error(path, "must be a mapping")
    missing = [key for key in REQUIRED if not data.get(key)]
    unknown = [key for key in data if key not in (*REQUIRED, *OPTIONAL)]
    if missing:
        raise _error(path, f"missing keys: {', '.join(missing)}")
    if unknown:
        raise _error(path, f"unknown keys: {', '.join(map(str, unknown))}")
    if not isinstance(data["prices"], list):
        raise _error(path, "prices must be a list")
    prices = tuple(_price(path, entry) for entry in data["prices"])
    if len({(price.device, price.kind) for price in prices}) < len(prices):
        raise _error(path, "has two prices for the same device and kind")
    texts = {key: str(data.get(key, "")) for key in ("title", "date", "source", *OPTIONAL)}
    return PriceList(name=path.stem, prices=prices, **texts)


def choose_prices(name: str | None, folder: Path, devices: Collection[str]) -> PriceList | None:
    """The price list with the given `name` or path. Without a name, the list in `folder` that
    prices most of `devices` (of several, the newest; with the same date, the last by name); None if
    no list prices any."""
    if name:
        path = Path(name)
        return read_prices(path if path.suffix else folder / f"{name}.yaml")
    lists = [read_prices(path) for path in sorted(folder.glob("*.yaml"))]
    priced = {each.name: sum(map(bool, map(each.price_of, devices))) for each in lists}
    usable = [each for each in lists if priced[each.name]]
    return max(usable, key=lambda each: (priced[each.name], each.date, each.name), default=None)


def _price(path: Path, entry: Any) -> Price:
    if not isinstance(entry, Mapping) or set(entry) != {"device", "kind", "usd_per_hour"}:
        raise _error(path, f"the price {entry!r} must have the keys device, kind, usd_per_hour")
    usd = entry["usd_per_hour"]
    if entry["kind"] not in KINDS:
        raise _error(path, f"kind is {entry['kind']!r}; must be one of {', '.join(KINDS)}")
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 < usd < 1e6:
        raise _error(path, f"usd_per_hour of {entry['device']} is {usd!r}; must be a number > 0")
    return Price(str(entry["device"]), str(entry["kind"]), float(usd))


def _error(path: Path, message: str) -> ConfigError:
    return ConfigError(f"{message}.", where=str(path), remedy="see conf/price/README.md.")
