# Requires: the plan, the runs' datasets, their builds' environments.
# Makes: the runs' records, and the round's file, which names them.


rule round:
    input:
        # Not ancient(): if such an input is made again, Snakemake skips rounds that are out of date
        # (https://github.com/snakemake/snakemake/issues/4166). A round that has its records adopts them.
        dataset=job.round.dataset,
        environment=job.round.environment,
    output:
        f"{job.folder}/rounds/{{round}}.json",
    log:
        f"{job.logs}/round/{{round}}.log",
    wildcard_constraints:
        round=r"[^/]+",
    priority: job.priority
    # All cores, so that no other job of this workflow runs next to a timed one. On a cluster the
    # profile ensures this.
    threads: workflow.resource_settings.cores or 1
    # The cluster's profile maps the device to a partition, a GPU or a whole node.
    resources:
        device=job.round.device,
    params:
        identity=job.round.identity,
        digest=job.round.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench round {output:q} --digest {params.digest}"
