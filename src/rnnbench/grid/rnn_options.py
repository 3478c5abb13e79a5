"""``rnn.options`` of a cell that its implementation would ignore are refused: the cell would be
measured, and named, as what it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion
from rnnbench.grid.rnn_choice import KEYS
from rnnworker.options import honoured, is_own, not_honoured


def check_options(
    config: Mapping[str, Any],
    overrides: Mapping[str, Any],
    choice: Mapping[str, Any],
    where: str,
    name: str,
) -> None:
    """Raises a `ConfigError` that names the key and what the implementation honours.

    **Arguments:**

    - `overrides`: of the cell, dotted key → value.
    - `choice`: the rnn choice as its file has it.
    - `where`: the file and grid that ask for the cell, `name`: the cell.
    """
    rnn, at = config["rnn"], f"{where}, cell {name}"
    for key in overrides:
        group, _, rest = key.removeprefix("~").partition(".")
        first = rest.partition(".")[0]
        if group == "rnn" and first not in {*KEYS, *choice}:
            remedy = f"{suggestion(first, [*KEYS, *choice])}options stand in rnn.options."
            if rest in (honoured(config) or ()):
                remedy = f"write +rnn.options.{rest}=VALUE."
            raise ConfigError(f"nothing reads {key}.", where=at, remedy=remedy)
    options = rnn.get("options")
    if options is not None and not isinstance(options, dict):
        raise ConfigError(
            f"rnn.options is {options!r}.", where=at, remedy="write rnn.options={op: CudnnRNNV3}."
        )
    behind = rnn.get("implementation")
    known, unknown = honoured(config) or [], not_honoured(config)
    if is_own(behind):
        known = sorted(choice.get("options") or {})
        unknown = [key for key in options or {} if key not in known]
    for key in unknown:
        own = f"rnn={rnn.get('name')}"
        means = "" if behind == rnn.get("name") else f" (rnn.implementation {behind})"
        remedy = f"give {own} a grid without {key}."
        if key in (choice.get("options") or {}):
            remedy = f"take {key} out of the file of {own}."
        raise ConfigError(
            f"{own}{means} does not honour rnn.options.{key}; "
            f"it honours {', '.join(known) or 'no options'}.",
            where=at,
            remedy=suggestion(key, known) + remedy,
        )
