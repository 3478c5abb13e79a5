"""One module per RNN implementation with ``make``, and with ``make_stack`` if one op of it computes
several layers or both directions; Keras's own layers share `keras`. ``OPTIONS`` names the
``rnn.options`` that a module honours. ``rnnworker.recurrent`` finds them by their names."""
