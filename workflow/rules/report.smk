# Required: tracked runs, certificates and probes, of this site and of those imported. Makes: the experiment's tables and report.


rule report:
    input:
        # Behind them are all rounds, which `all` names: once more here would slow down planning.
        job.tracked,
        job.certificates,
        job.probes,
        job.elsewhere,
        job.beside,
    output:
        report(
            f"{job.report_folder}/report.html",
            caption="../report/page.rst",
            category="The page",
            labels={"experiment": job.experiment, "file": "report.html"},
        ),
        f"{job.report_folder}/report.md",
        report(
            f"{job.report_folder}/tables/accuracy.csv",
            caption="../report/accuracy.rst",
            category="Tables",
            labels={"experiment": job.experiment, "file": "tables/accuracy.csv"},
        ),
        report(
            f"{job.report_folder}/tables/time.csv",
            caption="../report/time.rst",
            category="Tables",
            labels={"experiment": job.experiment, "file": "tables/time.csv"},
        ),
        report(
            f"{job.report_folder}/tables/runs.csv",
            caption="../report/runs.rst",
            category="Tables",
            labels={"experiment": job.experiment, "file": "tables/runs.csv"},
        ),
    log:
        f"{job.logs}/report.log",
    conda:
        "../../environment.yml"
    # Alone, and so after the tracking of the last runs: the page names their runs in MLflow.
    threads: workflow.resource_settings.cores or 1
    params:
        experiment=job.experiment,
        code=job.report_code,
        plan=job.plan_digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench report {params.experiment:q}"
