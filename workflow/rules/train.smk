# Required: the plan, the run's dataset. Makes: the pointer to the run's record.


rule train:
    input:
        ancient(job.store),
        # An mtime decides nothing: the dataset's md5 is in the identity.
        dataset=ancient(job.dataset_of),
    output:
        f"{job.folder}/{{name}}.json",
    log:
        f"{job.logs}/train/{{name}}.log",
    wildcard_constraints:
        name=r"[^/]+",
    priority: job.priority
    conda:
        "../../environment.yml"
    # All cores: nothing of this workflow runs beside a timed run.
    threads: workflow.cores
    params:
        identity=job.identity,
        digest=job.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench train {output:q} --digest {params.digest}"
