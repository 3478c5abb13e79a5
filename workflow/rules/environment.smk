# Requires: a lock file in workflow/envs/.
# Makes: the environment of the builds that have this lock.


rule environment:
    output:
        "results/envs/{environment}.json",
    log:
        f"{job.logs}/environment/{{environment}}.log",
    wildcard_constraints:
        environment=r"[^/]+",
    # Before any run: otherwise runs that need no environment are measured out of order.
    priority: job.first_priority
    localrule: True
    params:
        pins=job.environment_pins,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench environment {params.pins:q} --output {output:q}"
