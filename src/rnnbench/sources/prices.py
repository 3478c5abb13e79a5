"""Price lists: what an hour of a device cost, when, and who says so (``conf/price/*.yaml``)."""

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
    """USD for one hour of `device`, of a `kind`."""

    device: str
    kind: str
    usd_per_hour: float


@dataclass(frozen=True)
class PriceList:
    """One dated, sourced list. `reference` is the device that costs are relative to (``""``:
    the list names none)."""

    name: str
    title: str
    date: str
    source: str
    prices: tuple[Price, ...]
    note: str = ""
    reference: str = ""

    def of(self, device: str, kind: str = "") -> Price | None:
        """The price of `device`: of `kind`, or, where none is asked for, the first of on demand,
        preemptible and owned that the list has."""
        found = {price.kind: price for price in self.prices if price.device == device}
        kinds = (kind,) if kind else KINDS
        return next((found[name] for name in kinds if name in found), None)


def read_prices(path: Path) -> PriceList:
    """The list in a YAML file, or a `ConfigError` in one line."""
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
        raise _fault(path, "is not a mapping")
    missing = [key for key in REQUIRED if not data.get(key)]
    unknown = [key for key in data if key not in (*REQUIRED, *OPTIONAL)]
    if missing or unknown:
        raise _fault(path, f"lacks {missing or 'nothing'} and has unknown {unknown or 'nothing'}")
    if not isinstance(data["prices"], list):
        raise _fault(path, "prices is no list")
    prices = tuple(_price(path, entry) for entry in data["prices"])
    if len({(price.device, price.kind) for price in prices}) < len(prices):
        raise _fault(path, "has two prices for one device and kind")
    texts = {key: str(data.get(key, "")) for key in ("title", "date", "source", *OPTIONAL)}
    return PriceList(name=path.stem, prices=prices, **texts)


def choose_prices(asked: str | None, folder: Path, devices: Collection[str]) -> PriceList | None:
    """The list that was asked for by name or path; else the newest of `folder` (of equally
    dated, the last by name) that prices one of `devices`; None where none does."""
    if asked:
        path = Path(asked)
        return read_prices(path if path.suffix else folder / f"{asked}.yaml")
    lists = [read_prices(path) for path in sorted(folder.glob("*.yaml"))]
    fitting = [one for one in lists if any(one.of(device) for device in devices)]
    return max(fitting, key=lambda one: (one.date, one.name)) if fitting else None


def _price(path: Path, entry: Any) -> Price:
    if not isinstance(entry, Mapping) or set(entry) != {"device", "kind", "usd_per_hour"}:
        raise _fault(path, f"{entry!r} is not {{device, kind, usd_per_hour}}")
    usd = entry["usd_per_hour"]
    if entry["kind"] not in KINDS:
        raise _fault(path, f"kind {entry['kind']!r} is none of {', '.join(KINDS)}")
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 < usd < 1e6:
        raise _fault(path, f"usd_per_hour {usd!r} of {entry['device']} is no positive number")
    return Price(str(entry["device"]), str(entry["kind"]), float(usd))


def _fault(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{what}.", where=str(path), remedy="see conf/price/README.md.")
