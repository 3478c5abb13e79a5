"""The worker's jobs for a certificate, one per device, and what is wrong with the errors that they
measured. Standard library only, Python 3.6 syntax: the controller and bundles use it."""


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


def worst(batches):
    """Returns the largest errors of all sizes of a batch in a certificate; None if nothing was
    measured."""
    return {
        part: max((e[part] for e in batches if e[part] is not None), default=None)
        for part in ("outputs", "gradients")
    }


def wrong(batches, tolerance, device):
    """Returns which errors of a device's `batches` exceed the `tolerance`, and where they are
    largest, as text; None if none does."""
    largest = worst(batches)
    found = [
        next((part, each) for each in batches if each[part] == largest[part])
        for part in largest
        if largest[part] is not None and not largest[part] <= tolerance[part]
    ]
    text = "{} differ from the float64 reference by {:.0e} (tolerance {:.0e}) at batch {} with "
    text += "training={} on {}"
    return (
        "; ".join(
            text.format(part, each[part], tolerance[part], each["rows"], each["training"], device)
            for part, each in found
        )
        or None
    )
