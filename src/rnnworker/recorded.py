"""Follows the calls of a framework's functions while a model is built."""

import contextlib
import functools
import inspect
from unittest import mock


@contextlib.contextmanager
def recording(watched):
    """In the block, `record` of each of the `watched`, (owner, name of its function, record), is
    called after the function, with its result and its arguments: {name: value}, ``self`` first."""
    with contextlib.ExitStack() as stack:
        for owner, name, record in watched:
            function = _recorded(getattr(owner, name), record)
            stack.enter_context(mock.patch.object(owner, name, function))
        yield


def _recorded(original, record):
    signature = inspect.signature(original)

    @functools.wraps(original)
    def recorded(*arguments, **settings):
        result = original(*arguments, **settings)
        bound = signature.bind(*arguments, **settings)
        record(result, bound.arguments)
        return result

    if original.__name__ == "__init__":
        # Keras 3 reads the names of positional arguments from it.
        recorded.__signature__ = signature
    return recorded
