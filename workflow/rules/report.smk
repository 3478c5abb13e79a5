# Requires: tracked runs, certificates and predictions of this site and of imported ones.
# Makes: the experiment's tables and report.


rule report:
    input:
        # These depend on all rounds; naming the rounds here as well would slow down planning.
        job.tracked,
        job.certificates,
        job.predictions,
        job.imported_files,
        job.prices_and_published,
    output:
        report(
            f"{job.report_folder}/report.html",
            caption="../report/page.rst",
            category="The page",
            labels={"experiment": job.experiment, "file": "report.html"},
        ),
        job.other_report_files,
        # Their number and names depend on the results.
        directory(job.figures),
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
    localrule: True
    # All cores, so that it starts after the tracking of the last runs: the page links them in MLflow.
    threads: workflow.resource_settings.cores or 1
    params:
        experiment=job.experiment,
        code=job.report_code,
        plan=job.plan_digest,
    shell:
        "RNNBENCH_LOG={log:q} exec python -m rnnbench report {params.experiment:q}"
