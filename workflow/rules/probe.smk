# Required: the plan, the build's environment. Makes: probes/DEVICE-BUILD.json.


rule probe:
    input:
        environment=ancient(job.probe.environment),
    output:
        f"{job.folder}/probes/{{key}}.json",
    log:
        f"{job.logs}/probe/{{key}}.log",
    wildcard_constraints:
        key=r"[^/]+",
    # Before the runs, whose times it is the measure of.
    priority: job.first + 1
    conda:
        "../../environment.yml"
    # All cores: it would disturb a timed run, and be disturbed (see round.smk).
    threads: workflow.resource_settings.cores or 1
    # On a cluster its profile says what this device means: a partition, a GPU, a whole node.
    resources:
        device=job.probe.device,
    params:
        identity=job.probe.identity,
        digest=job.probe.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench probe {output:q} --digest {params.digest}"
