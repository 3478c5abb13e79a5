"""Builds the worker's jobs for a certificate, one per device. Standard library only, Python 3.6
syntax: the controller and bundles use it."""


def jobs_of(planned):
    """Returns one job per device of `planned`, an entry of ``certificates.json``: the first also
    compares the implementations with each other."""
    sections = {entry["name"]: entry["rnn"] for entry in planned["implementations"]}
    return [
        {
            "mode": "certify",
            "config": dict(planned["config"], device=place["device"]),
            "device": place["name"],
            "batches": place["batches"],
            "implementations": [
                {"name": name, "rnn": sections[name]} for name in place["implementations"]
            ],
            "further_device": number > 0,
        }
        for number, place in enumerate(planned["devices"])
    ]


def batch_sizes(samples, batch):
    """Returns the sizes of the batches that `samples` are split into: whole ones and the last."""
    return {size for size in (min(batch, samples), samples % batch) if size}
