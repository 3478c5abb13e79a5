"""rnnbench: which recurrent-network implementation, on which device, with which build?

The conductor. It expands a grid, launches and watches one worker process per run, logs
the runs, and reports. It never imports TensorFlow, Keras, torch or jax: those live in
the environment under test, beside the package ``rnnworker``.
"""

__version__ = "0.1.0"
