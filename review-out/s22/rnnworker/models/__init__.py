"""One module per model. Its ``build`` takes the ``keras`` module; no model imports Keras."""
