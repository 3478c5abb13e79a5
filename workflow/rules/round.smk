# Requires: the plan, the runs' datasets, their builds' environments.
# Makes: the runs' records, and for each round a file that names them; on this machine their certificates, too.


# On this machine, one job makes the certificates of a batch of rounds, and measures them one after the other: frameworks
# are imported once for both.
rule rounds:
    input:
        # Not ancient(): if such an input is made again, Snakemake skips rounds that are out of date
        # (https://github.com/snakemake/snakemake/issues/4166). A round that has its records adopts them.
        dataset=job.batch.dataset,
        environment=job.batch.environment,
    output:
        f"{job.folder}/measured/{{batch}}.json",
    log:
        f"{job.logs}/rounds/{{batch}}.log",
    wildcard_constraints:
        batch=r"\d+",
    priority: job.batch_priority
    # All cores, so that no other job of this workflow runs next to a timed one.
    threads: workflow.resource_settings.cores or 1
    params:
        identity=job.batch.identity,
        digest=job.batch.digest,
        what=job.batch_text,
    message:
        "{params.what}"
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench rounds {output:q} --digest {params.digest}"


# On a cluster, each round is a job.
rule round:
    input:
        dataset=job.round.dataset,
        environment=job.round.environment,
    output:
        f"{job.folder}/rounds/{{round}}.json",
    log:
        f"{job.logs}/round/{{round}}.log",
    wildcard_constraints:
        round=r"[^/]+",
    priority: job.round_priority
    # The profile ensures that no other job runs next to a timed one.
    threads: workflow.resource_settings.cores or 1
    # The cluster's profile maps the device to a partition, a GPU or a whole node.
    resources:
        device=job.round.device,
    params:
        identity=job.round.identity,
        digest=job.round.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench round {output:q} --digest {params.digest}"
