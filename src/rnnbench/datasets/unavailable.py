"""Why one source does not give a file."""

from __future__ import annotations


class Unavailable(Exception):
    """One source cannot give the bytes; the next may. Its text is the reason, without the
    source's name. It never leaves `rnnbench.datasets`: `provide` gathers the reasons."""
