# Requires: the plan, the build's environment.
# Makes: probes/DEVICE-BUILD.json.


rule probe:
    input:
        environment=job.probe.environment,
    output:
        f"{job.folder}/probes/{{key}}.json",
    log:
        f"{job.logs}/probe/{{key}}.log",
    wildcard_constraints:
        key=r"[^/]+",
    # Before the runs, whose times are compared with it.
    priority: job.first_priority + 1
    conda:
        "../../environment.yml"
    # All cores: it and a timed run would disturb each other (see round.smk).
    threads: workflow.resource_settings.cores or 1
    # The cluster's profile maps the device to a partition, a GPU or a whole node.
    resources:
        device=job.probe.device,
    params:
        identity=job.probe.identity,
        digest=job.probe.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench probe {output:q} --digest {params.digest}"
