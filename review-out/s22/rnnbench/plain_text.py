"""Text without the characters that do something to a terminal or change the order of what is read,
and names that a shell, a file system and an archive take as they are.

Records, certificates and plans may be from other machines, and messages quote what they contain.
"""

from __future__ import annotations

import re

# Control characters except tab and newline, and marks that change the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# The same in the bytes of JSON, as they are or escaped; also finds a few other characters.
_IN_JSON = re.compile(
    rb"\\[bfr]|\\u00[0189]|\\u007f|\\u20[026]|[\x7f]|\xc2[\x80-\x9f]"
    rb"|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9_+=@][A-Za-z0-9_.+=@-]{0,254}")


def is_name(text: str) -> bool:
    """Whether `text` consists of letters, digits and ``_.+=@-``, and begins with neither a dot nor
    a hyphen."""
    return _NAME.fullmatch(text) is not None


def plain(text: str) -> str:
    """`text` without control characters and direction marks."""
    return _CONTROL.sub("", text)


def may_hold_controls(json: bytes) -> bool:
    """Whether the texts in `json` may hold characters that `plain` removes."""
    if json.isascii() and b"\\" not in json and b"\x7f" not in json:
        return False
    return _IN_JSON.search(json) is not None
