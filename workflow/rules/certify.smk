# Requires: the plan, the model's dataset, the build's environment.
# Makes: certificates/MODEL-CELL-BUILD-DIGEST12.json. On this machine, a batch of rounds makes its own (round.smk).


rule certify:
    input:
        dataset=job.certificate.dataset,
        environment=job.certificate.environment,
    output:
        f"{job.folder}/certificates/{{key}}.json",
    log:
        f"{job.logs}/certify/{{key}}.log",
    wildcard_constraints:
        key=r"[^/]+",
    # Before the runs, whose speed-ups depend on it.
    priority: job.first_priority + 1
    # All cores: it would disturb a timed run (see round.smk).
    threads: workflow.resource_settings.cores or 1
    # The cluster's profile maps the device to a partition, a GPU or a whole node.
    resources:
        device=job.certificate.device,
    params:
        identity=job.certificate.identity,
        digest=job.certificate.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench certify {output:q} --digest {params.digest}"
