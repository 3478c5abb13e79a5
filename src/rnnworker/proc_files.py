"""The small files in which the kernel says things. Standard library only, Python 3.6 syntax."""


def text(path):
    """What stands in the file, without blanks around it; None where it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def number(path, default):
    """The whole number that stands in the file; `default` where there is none."""
    try:
        return int(text(path) or "")
    except ValueError:
        return default


def processors(path):
    """The processors that the file lists, such as ``0-3,8``, as a set of their numbers."""
    parts = [part.split("-") for part in (text(path) or "").split(",") if part]
    return {one for part in parts for one in range(int(part[0]), int(part[-1]) + 1)}
