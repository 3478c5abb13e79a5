# Requires: the plan, the model's dataset, the build's environment.
# Makes: predictions/NAME.json, how runtimes answer with a model, and the folder with the exported files.


rule predict:
    input:
        dataset=job.prediction.dataset,
        environment=job.prediction.environment,
    output:
        f"{job.folder}/predictions/{{prediction}}.json",
    log:
        f"{job.logs}/predict/{{prediction}}.log",
    wildcard_constraints:
        prediction=r"[^/]+",
    # All cores, so that no other job of this workflow runs next to a timed one.
    threads: workflow.resource_settings.cores or 1
    # The cluster's profile maps the device to a partition or a whole node.
    resources:
        device=job.prediction.device,
    params:
        identity=job.prediction.identity,
        digest=job.prediction.digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench predict {output:q} --digest {params.digest}"
