"""Turns an experiment's grids into grid points. The only side effects are reading ``conf/`` and
the cache of parsed grids.

    experiment.load_experiment   conf/experiment/NAME.yaml → Experiment
    expand.expand                Experiment → grid points
    order.plan_order             grid points → the order in which they are measured
    identity.identity_of         everything that decides whether a run is repeated

Only ``grammar``, ``compose``, ``interpolation`` and ``experiment`` import Hydra or OmegaConf;
``parse_cache`` spares most starts the first two.
"""
