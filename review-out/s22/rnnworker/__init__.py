"""rnnworker: trains and times one run inside the build under test.

Uses the standard library, NumPy and the framework only, in Python 3.6 syntax. Imports nothing
from the controller (``rnnbench``): the worker reads one JSON file, writes JSON lines, and waits
at a handshake between phases. The modules that the controller or a bundle imports use the standard
library alone.
"""
