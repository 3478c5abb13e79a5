# Required: rounds. Makes: which MLflow run each record became.


# The store exists before the first run: several processes that make it at once break it.
rule store:
    output:
        job.store,
    log:
        f"{job.logs}/store.log",
    priority: job.first
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
    # Before the next run: what is done can be looked at.
    priority: job.first
    conda:
        "../../environment.yml"
    params:
        uri=job.tracking_uri,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench track {input:q} --output {output:q}"
