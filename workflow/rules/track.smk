# Requires: rounds.
# Makes: tracked/BATCH.json, the MLflow run of each record.


rule track:
    input:
        job.measured_in,
    output:
        f"{job.folder}/tracked/{{batch}}.json",
    log:
        f"{job.logs}/track/{{batch}}.log",
    wildcard_constraints:
        batch=r"\d+",
    # Before the next run, so that finished runs can be viewed.
    priority: job.first_priority
    localrule: True
    params:
        uri=job.tracking_uri,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track {input:q} --output {output:q}"
