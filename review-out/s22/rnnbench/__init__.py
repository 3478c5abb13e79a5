"""rnnbench: measures which recurrent-network implementation trains fastest, by device and build.

This package is the controller. It expands a grid, starts and supervises one worker process per
run, logs the runs, and writes reports. It never imports TensorFlow, Keras, torch or jax: they
belong to the environment under test, which runs the package ``rnnworker``.
"""

__version__ = "0.1.0"
