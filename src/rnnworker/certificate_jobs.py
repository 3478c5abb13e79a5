"""Builds the worker's jobs for a certificate, one per device. Standard library only, Python 3.6
syntax: the controller and bundles use it."""


def jobs_of(planned):
    """Returns one job per device of `planned`, an entry of ``certificates.json``: first the whole
    certificate on the device of its config, then only the applied steps on each other device."""
    entries = planned["implementations"]
    sections = {entry["name"]: entry["rnn"] for entry in entries}
    runnable = [entry["name"] for entry in entries if not entry["skip"]]
    jobs = [_job(planned["config"], planned["device"], sections, runnable)]
    for other in planned["devices"]:
        config = dict(planned["config"], device=other["device"])
        job = _job(config, other["name"], sections, other["implementations"])
        jobs.append(dict(job, applied_only=True))
    return jobs


def _job(config, device, sections, names):
    entries = [{"name": name, "rnn": sections[name]} for name in names]
    return {"mode": "certify", "config": config, "device": device, "implementations": entries}
