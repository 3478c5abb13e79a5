"""The commands of ``rnnbench``: functions that have a command's name and, as their docstring, its
help, in the modules of this package that `MODULES` names. `COMMANDS` are those that a person meets,
each with a summary; only the workflow and the Makefile call the others."""

COMMANDS = {
    "run": "run an experiment with Snakemake",
    "grid": "list an experiment's grid points: which ones run, which are skipped and why",
    "plan": "estimate runs, time, disk space and repeats of an experiment",
    "dataset": "provide or check the pinned data sets in data/",
    "retry": "mark runs that the next start measures again",
    "ui": "serve MLflow with all runs, and print the links to the experiments",
    "track": "log records to MLflow (the workflow does it after each round)",
    "export": "write an experiment's records to one file for another machine",
    "import": "import records from an exported file or a bundle",
    "bundle": "write a folder that measures an experiment without rnnbench",
    "report": "write an experiment's report from its records",
    "history": "compare the measurements of an experiment over dates and versions",
    "compare": "compare any two configurations, builds, devices or machines",
    "show": "show one run",
    "doctor": "check what this machine can measure and what would distort the numbers",
    "weights": "convert a checkpoint between the layouts of CuDNN and Keras layers",
    "gc": "remove unused environments and leftover files (asks first)",
}
# Those that need no project: they convert a file, or the workflow names the project to them.
ANYWHERE = ("weights", "round", "certify", "predict")
MODULES = {
    "bundle": "exchange",
    "certify": "rules",
    "compare": "compare",
    "dataset": "machine",
    "doctor": "machine",
    "environment": "machine",
    "export": "exchange",
    "gc": "results",
    "grid": "experiment",
    "history": "history",
    "import": "exchange",
    "lock": "machine",
    "plan": "plan",
    "predict": "rules",
    "report": "report",
    "retry": "results",
    "round": "rules",
    "run": "experiment",
    "show": "show",
    "track": "track",
    "ui": "track",
    "weights": "weights",
}
