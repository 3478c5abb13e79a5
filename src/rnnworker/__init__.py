"""rnnworker: trains and times one run inside the build under test.

Standard library, NumPy and the framework only; syntax that Python 3.6 reads. Nothing of
the conductor (``rnnbench``) is imported here: the worker reads one JSON file, writes
JSON lines, and waits at a handshake between phases.
"""
