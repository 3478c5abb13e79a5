"""What the worker is told to do for one certificate, device by device. Standard library only,
Python 3.6 syntax: the conductor and a bundle both ask."""


def jobs_of(planned):
    """One job for each device of `planned`, an entry of ``certificates.json``: the whole
    certificate on its config's device first, then the applied steps alone on each other one."""
    entries = planned["implementations"]
    sections = {entry["name"]: entry["rnn"] for entry in entries}
    jobs = [_job(planned["config"], planned["device"], sections, _runnable(entries))]
    for one in planned["devices"]:
        config = dict(planned["config"], device=one["device"])
        job = _job(config, one["name"], sections, one["implementations"])
        jobs.append(dict(job, applied_only=True))
    return jobs


def _runnable(entries):
    return [entry["name"] for entry in entries if not entry["skip"]]


def _job(config, device, sections, names):
    told = [{"name": name, "rnn": sections[name]} for name in names]
    return {"mode": "certify", "config": config, "device": device, "implementations": told}
