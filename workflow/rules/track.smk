# Requires: rounds.
# Makes: tracked/BATCH.json, the MLflow run of each record.


# Before the first run by its priority: creating the store takes seconds, and would disturb a timed run.
rule store:
    output:
        job.store,
    log:
        f"{job.logs}/store.log",
    priority: job.first_priority
    localrule: True
    params:
        uri=job.tracking_uri,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track --init --output {output:q}"


rule track:
    input:
        store=job.store,
        measured=job.measured_in,
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
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track {input.measured:q} --output {output:q}"
