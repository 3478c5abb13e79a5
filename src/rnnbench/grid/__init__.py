"""Turns an experiment's grids into grid points. The only side effect is reading ``conf/``.

    experiment.load_experiment   conf/experiment/NAME.yaml → Experiment
    expand.expand                Experiment → grid points
    point.identity_of            everything that decides whether a run is repeated

Only ``grammar`` and ``compose`` import Hydra; ``experiment`` imports OmegaConf to read a file.
"""
