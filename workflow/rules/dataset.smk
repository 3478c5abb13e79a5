# Requires: data.dvc.
# Makes: data/FILE, for the datasets that planned runs use.


rule dataset:
    output:
        "data/{file}",
    log:
        f"{job.logs}/dataset/{{file}}.log",
    # A user's file in data/ is not provided by this rule.
    wildcard_constraints:
        file=job.dataset_files,
    localrule: True
    params:
        name=job.dataset_name,
        md5=job.dataset_md5,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench dataset {params.name:q}"
