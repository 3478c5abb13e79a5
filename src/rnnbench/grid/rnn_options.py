"""Rejects ``rnn.options`` that the implementation would ignore: the name of the grid point would
not describe what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion
from rnnbench.grid.rnn_choice import KEYS
from rnnworker.options import honoured, is_user_file, not_honoured


def check_options(
    config: Mapping[str, Any],
    overrides: Mapping[str, Any],
    choice: Mapping[str, Any],
    where: str,
    name: str,
) -> None:
    """Raises a `ConfigError` that names the key and the options that the implementation honours.

    **Arguments:**

    - `overrides`: the overrides of the grid point, dotted key → value.
    - `choice`: the section of the rnn choice, without overrides.
    - `where`, `name`: the grid and the name of the grid point, for errors.
    """
    rnn, at = config["rnn"], f"{where}, grid point {name}"
    for key in overrides:
        group, _, rest = key.removeprefix("~").partition(".")
        first = rest.partition(".")[0]
        if group == "rnn" and first not in {*KEYS, *choice}:
            remedy = f"{suggestion(first, [*KEYS, *choice])}options belong in rnn.options."
            if rest in (honoured(config) or ()):
                remedy = f"write +rnn.options.{rest}=VALUE."
            raise ConfigError(f"unknown key {key!r}.", where=at, remedy=remedy)
    options = rnn.get("options")
    if options is not None and not isinstance(options, dict):
        raise ConfigError(
            f"rnn.options is {options!r}; it must be a mapping.",
            where=at,
            remedy="write rnn.options={op: CudnnRNNV3}.",
        )
    implementation = rnn.get("implementation")
    known, unknown = honoured(config) or [], not_honoured(config)
    if is_user_file(implementation):
        known = sorted(choice.get("options") or {})
        unknown = [key for key in options or {} if key not in known]
    rnn_choice = f"rnn={rnn.get('name')}"
    detail = "" if implementation == rnn.get("name") else f" (rnn.implementation {implementation})"
    for key in unknown:
        remedy = f"give {rnn_choice} a grid without {key}."
        if key in (choice.get("options") or {}):
            remedy = f"remove {key} from the file of {rnn_choice}."
        raise ConfigError(
            f"{rnn_choice}{detail} does not honour rnn.options.{key}; "
            f"it honours {', '.join(known) or 'no options'}.",
            where=at,
            remedy=suggestion(key, known) + remedy,
        )
