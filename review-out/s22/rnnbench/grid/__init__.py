"""Turns an experiment's grids into grid points. The only side effect is reading ``conf/``.

    experiment.load_experiment   conf/experiment/NAME.yaml → Experiment
    expand.expand                Experiment → grid points
    point.full_identity          everything that decides whether a run is repeated

Hydra is imported by ``compose``, and by ``overrides`` to parse a text; OmegaConf also by
``experiment`` to read a file.
"""
