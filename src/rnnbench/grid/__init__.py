"""Turns an experiment's grids into grid points. The only side effect is reading ``conf/``.

    experiment_file.load_experiment   conf/experiment/NAME.yaml → Experiment
    expand.expand                     Experiment → grid points
    order.plan_order                  grid points → the order in which they are measured
    identity.identity_of              everything that decides whether a run is repeated

Only ``grammar``, ``compose`` and ``experiment_file`` import Hydra or OmegaConf.
"""
