"""The commands of ``rnnbench``, one module each; the module's docstring is its ``--help`` text.

`RULES` (name → module and function) are those that only the workflow and the Makefile call; they
are not listed."""

COMMANDS = {
    "run": "run an experiment with Snakemake",
    "grid": "list an experiment's grid points: name, choices, run or skip and why",
    "plan": "estimate runs, time, disk space and repeats of an experiment",
    "dataset": "provide or check the pinned datasets in data/",
    "retry": "have chosen runs measured again by the next snakemake",
    "track": "log records to MLflow (the workflow does it after each round)",
    "export": "write an experiment's records to one file for another machine",
    "import": "import records from an exported file or a bundle",
    "bundle": "write a folder that measures an experiment with Python alone",
    "report": "write an experiment's report from its records",
    "compare": "compare any two configurations, builds, devices or machines",
    "show": "show one run",
    "published": "write the page of published comparisons",
    "doctor": "check what this machine can measure and what would disturb it",
    "weights": "convert a checkpoint between CuDNN, Keras and canonical layouts",
    "gc": "remove unused environments and leftover files (asks first)",
}
RULES = {
    "certify": ("preflights", "certify_main"),
    "environment": ("builds", "environment_main"),
    "lock": ("builds", "lock_main"),
    "probe": ("preflights", "probe_main"),
    "round": ("round", "main"),
}
