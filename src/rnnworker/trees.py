"""Several inputs or outputs: a tree is an array, or a dict, list or tuple of trees."""

import numpy


def mapped(function, tree):
    """The tree with `function` of each array. A list becomes a tuple: for tf.data and jax, a list
    is one array."""
    if isinstance(tree, dict):
        return {name: mapped(function, tree[name]) for name in tree}
    if isinstance(tree, (list, tuple)):
        return tuple(mapped(function, each) for each in tree)
    return function(tree)


def named(tree, name=""):
    """[(dotted name, array)] of the arrays in a tree called `name`."""
    if isinstance(tree, (list, tuple)):
        tree = dict(enumerate(tree))
    if not isinstance(tree, dict):
        return [(name, tree)]
    found = []
    for key in tree:
        inner = str(key)
        if name:
            inner = "{}.{}".format(name, key)
        found += named(tree[key], inner)
    return found


def leaves(tree):
    return [array for _, array in named(tree)]


def rows(tree):
    """The number of samples: the first size of every array."""
    return len(leaves(tree)[0])


def taken(tree, chosen):
    """The samples `chosen`, a slice or numbers."""
    return mapped(lambda array: array[chosen], tree)


def shapes(tree):
    """The shape of one sample, as a list; of several arrays, by their names."""
    found = {}
    for name, array in named(tree):
        shape = numpy.shape(array)
        found[name] = list(shape[1:])
    if list(found) == [""]:
        return found[""]
    return found


def nested(arrays, names):
    """The trees called `names` from `arrays` with dotted names: ``x_train.encoder`` is the entry
    ``encoder`` of ``x_train``; ``x_train.0`` and ``x_train.1`` are those of a list. Raises
    ValueError if a tree is both an array and made of arrays."""
    found = {}
    parts = {}
    for name in arrays:
        first, dot, rest = name.partition(".")
        if dot and first in names:
            parts.setdefault(first, {})[rest] = arrays[name]
        else:
            found[name] = arrays[name]
    for name, tree in parts.items():
        if name in found:
            fault = "there is {0}, and {0}.{1}: leave one of them out"
            raise ValueError(fault.format(name, min(tree)))
        numbers = [str(number) for number in range(len(tree))]
        if set(tree) == set(numbers):
            tree = tuple(tree[number] for number in numbers)
        found[name] = tree
    return found
