# Required: a lock file of workflow/envs/. Makes: the environment of the builds that have this lock.


rule environment:
    output:
        "results/envs/{environment}.json",
    log:
        f"{job.logs}/environment/{{environment}}.log",
    wildcard_constraints:
        environment=r"[^/]+",
    # Before any run: a run that is ready would else be measured out of its turn.
    priority: job.first
    conda:
        "../../environment.yml"
    params:
        pins=job.environment_pins,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench environment {params.pins:q} --output {output:q}"
