"""The order in which members take their turns. Standard library only, Python 3.6 syntax."""


def cycles(names, stream):
    """Yields endless permutations of `names`: the rows of a Williams square (Australian Journal of
    Scientific Research A 2, 1949), in which each name directly follows every other equally often.
    When the rows are used up, a new square is drawn from `stream` (a ``random.Random``)."""
    while True:
        labels = list(names)
        stream.shuffle(labels)
        rows = williams(len(labels))
        stream.shuffle(rows)
        for row in rows:
            yield [labels[place] for place in row]


def williams(size):
    """Returns the rows of a Williams square: `size` rows, twice as many for an odd `size`. Over all
    rows, each element directly follows every other equally often."""
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    rows = [[(place + shift) % size for place in first] for shift in range(size)]
    return rows + [row[::-1] for row in rows] if size % 2 and size > 1 else rows
