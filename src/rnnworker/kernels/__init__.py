"""One module per RNN implementation with ``make``; Keras's own layers share `keras`. ``OPTIONS``
names the ``rnn.options`` that a module honours. With ``MAKES_STACKS``, ``make`` also takes the
number of ``layers`` and ``directions``, which one op computes. ``rnnworker.recurrent`` finds the
modules by their names."""
