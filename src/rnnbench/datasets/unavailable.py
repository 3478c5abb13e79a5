"""The exception for a source that lacks a file."""

from __future__ import annotations


class Unavailable(Exception):
    """A source cannot provide the bytes; another one may. The message is the reason, without the
    name of the source. `provide` collects the reasons: the exception never leaves this package."""
