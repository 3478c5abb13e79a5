"""From a grid to cells to a plan. Pure, but for reading ``conf/``.

    experiment.load_experiment   conf/experiment/NAME.yaml → Experiment
    expand.expand                Experiment → cells
    plan.plan_order              cells → the order in which they are measured
    identity.identity_of         what decides about a rerun

Only ``grid``, ``compose`` and ``experiment`` import Hydra or OmegaConf.
"""
