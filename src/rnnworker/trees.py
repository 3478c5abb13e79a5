"""Several inputs or outputs: a tree is an array, or a dict, list or tuple of trees."""

from typing import Any, Callable, Container, Dict, List, Mapping, Optional, Tuple, Union

import numpy

Tree = Any  # an array has no type that NumPy 1 and 2 and the frameworks share


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The tree with `function` of each array. A list becomes a tuple: for tf.data and jax, a list
    is one array."""
    if isinstance(tree, dict):
        return {name: mapped(function, tree[name]) for name in tree}
    if isinstance(tree, (list, tuple)):
        return tuple(mapped(function, each) for each in tree)
    return function(tree)


def named(tree: Tree, name: str = "") -> List[Tuple[str, Any]]:
    """[(dotted name, array)] of the arrays in a tree called `name`."""
    if isinstance(tree, (list, tuple)):
        tree = dict(enumerate(tree))
    if not isinstance(tree, dict):
        return [(name, tree)]
    found: List[Tuple[str, Any]] = []
    for key in tree:
        inner = str(key)
        if name:
            inner = "{}.{}".format(name, key)
        found += named(tree[key], inner)
    return found


def leaves(tree: Tree) -> List[Any]:
    return [array for _, array in named(tree)]


def rows(tree: Tree) -> int:
    """The number of samples: the first size of every array."""
    return len(leaves(tree)[0])


def taken(tree: Tree, chosen: Union[slice, numpy.ndarray]) -> Tree:
    """The samples `chosen`, a slice or numbers."""
    return mapped(lambda array: array[chosen], tree)


def shapes(tree: Tree) -> Union[List[int], Dict[str, List[int]]]:
    """The shape of one sample, as a list; of several arrays, by their names."""
    found: Dict[str, List[int]] = {}
    for name, array in named(tree):
        shape = numpy.shape(array)
        found[name] = list(shape[1:])
    if list(found) == [""]:
        return found[""]
    return found


def nested(arrays: Mapping[str, Any], names: Optional[Container[str]] = None) -> Dict[str, Tree]:
    """The reverse of `named`: the trees called `names`, by default all, from `arrays` with dotted
    names: ``x_train.encoder`` is the entry ``encoder`` of ``x_train``; ``x_train.0`` and
    ``x_train.1`` are those of a list. Raises ValueError if a tree is both an array and made of
    arrays."""
    found: Dict[str, Tree] = {}
    parts: Dict[str, Dict[str, Any]] = {}
    for name in arrays:
        first, dot, rest = name.partition(".")
        if dot and (names is None or first in names):
            parts.setdefault(first, {})[rest] = arrays[name]
        else:
            found[name] = arrays[name]
    for name, entries in parts.items():
        if name in found:
            fault = "there is {0}, and {0}.{1}: leave one of them out"
            raise ValueError(fault.format(name, min(entries)))
        found[name] = nested(entries)
        numbers = [str(number) for number in range(len(found[name]))]
        if set(found[name]) == set(numbers):
            found[name] = tuple(found[name][number] for number in numbers)
    return found
