"""Reads small files below /proc and /sys. Standard library only, Python 3.6 syntax."""


def text(path):
    """Returns the file's content, stripped; None if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def number(path, default):
    """Returns the integer in the file; `default` if there is none."""
    try:
        return int(text(path) or "")
    except ValueError:
        return default


def processors(path):
    """Returns the set of processors in the file's list, such as ``0-3,8``."""
    ranges = [part.split("-") for part in (text(path) or "").split(",") if part]
    return {cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)}
