"""In which order the members of a round take their turns. Standard library only, Python 3.6."""


def cycles(names, stream):
    """Endless orders of `names`, each once in each order: rows of a Williams square (Australian
    Journal of Scientific Research A 2, 1949), in which everyone follows every other equally often,
    drawn anew from `stream` (a ``random.Random``) when its rows are used up."""
    while True:
        labels = list(names)
        stream.shuffle(labels)
        rows = williams(len(labels))
        stream.shuffle(rows)
        for row in rows:
            yield [labels[place] for place in row]


def williams(size):
    """The rows of a Williams square of `size`: `size` rows, twice as many for an odd size; in all
    of them together everyone directly follows every other equally often."""
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    rows = [[(place + shift) % size for place in first] for shift in range(size)]
    return rows + [row[::-1] for row in rows] if size % 2 and size > 1 else rows
