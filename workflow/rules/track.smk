# Requires: rounds.
# Makes: tracked/BATCH.json, the MLflow run of each record.


# Made before the first run: several processes that create it at the same time corrupt it.
rule store:
    output:
        job.store,
    log:
        f"{job.logs}/store.log",
    priority: job.first_priority
    conda:
        "../../environment.yml"
    params:
        uri=job.tracking_uri,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track --init --output {output:q}"


rule track:
    input:
        job.batch_rounds,
    output:
        f"{job.folder}/tracked/{{batch}}.json",
    log:
        f"{job.logs}/track/{{batch}}.log",
    wildcard_constraints:
        batch=r"\d+",
    # Before the next run, so that finished runs can be viewed.
    priority: job.first_priority
    conda:
        "../../environment.yml"
    params:
        uri=job.tracking_uri,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track {input:q} --output {output:q}"
