"""rnnbench in a program: `compare` measures and `load` reads; both return what the page shows.
``import rnnbench`` gives these names."""
