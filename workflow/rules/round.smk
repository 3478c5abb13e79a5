# Required: the plan, the runs' datasets, their builds' environments. Makes: the runs' records and
# pointers, and the file that names them.


rule round:
    input:
        ancient(job.store),
        # An mtime decides nothing: the dataset's md5 is in the identity.
        dataset=ancient(job.round.dataset),
        environment=ancient(job.round.environment),
    output:
        f"{job.folder}/rounds/{{round}}.json",
    log:
        f"{job.logs}/round/{{round}}.log",
    wildcard_constraints:
        round=r"[^/]+",
    priority: job.priority
    conda:
        "../../environment.yml"
    # All cores of this machine: nothing of this workflow runs beside what is timed. On a cluster its
    # profile sees to that.
    threads: workflow.resource_settings.cores or 1
    # On a cluster its profile says what this device means: a partition, a GPU, a whole node.
    resources:
        device=job.round.device,
    params:
        identity=job.round.identity,
        digest=job.round.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench round {output:q} --digest {params.digest}"
