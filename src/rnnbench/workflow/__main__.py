"""``python -m rnnbench.workflow``: Snakemake with the same arguments, without its first line about
the profile, which every project has."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from snakemake import cli

PROFILE = " for setting default command line arguments."


class _WithoutProfile:
    """Standard error without the line that names the profiles in use."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._is_left_out = False

    def write(self, text: str) -> int:
        if text.rstrip("\n").endswith(PROFILE):
            self._is_left_out = True
            return len(text)
        if self._is_left_out and text == "\n":  # which `print` writes separately
            self._is_left_out = False
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    """Starts Snakemake. Only the reading of its arguments prints the line."""
    parse = cli.parse_args

    def parse_quietly(arguments: Any) -> Any:
        stream = sys.stderr
        sys.stderr = _WithoutProfile(stream)  # type: ignore[assignment]
        try:
            return parse(arguments)
        finally:
            sys.stderr = stream

    cli.parse_args = parse_quietly
    cli.main()


if __name__ == "__main__":
    main()
