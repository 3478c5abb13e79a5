# Required: the plan, the run's dataset, its build's environment. Makes: the pointer to the run's record.


rule train:
    input:
        ancient(job.store),
        # An mtime decides nothing: the dataset's md5 is in the identity.
        dataset=ancient(job.run.dataset),
        environment=ancient(job.run.environment),
    output:
        f"{job.folder}/{{name}}.json",
    log:
        f"{job.logs}/train/{{name}}.log",
    wildcard_constraints:
        name=r"[^/]+",
    priority: job.priority
    conda:
        "../../environment.yml"
    # All cores of this machine: nothing of this workflow runs beside a timed run. On a cluster its
    # profile sees to that.
    threads: workflow.resource_settings.cores or 1
    # On a cluster its profile says what this device means: a partition, a GPU, a whole node.
    resources:
        device=job.run.device,
    params:
        identity=job.run.identity,
        digest=job.run.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench train {output:q} --digest {params.digest}"
