"""Which runs are not trained, because their certificate found their implementation wrong, and what
a user can do about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from rnnbench.errors import RecordError
from rnnbench.records.overrides import label as label_of
from rnnbench.records.plan_file import PlannedCertificate, read_certificates
from rnnbench.records.record import NOT_CERTIFIED, Reason, Run
from rnnbench.records.store import Place, read_json
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.sources.certificates import certificate_of
from rnnworker.options import is_user_file
from rnnworker.user_functions import OUT_OF_MEMORY


def refusals(runs: Sequence[Run], place: Place) -> dict[str, Reason]:
    """Run → why it is not trained, for those whose certificate found their implementation wrong on
    their device.

    - `runs`: of a round.
    - `place`: where the planned certificates and those that were made are.

    Runs with ``measure.uncertified`` or ``build.as_published`` are trained all the same. So are
    those without a readable certificate.
    """
    refused: dict[str, Reason] = {}
    with suppress(RecordError):
        certificates = read_certificates(place.folder / "certificates.json")
        for run in runs:
            planned = certificates.get(run.certificate or "")
            is_trained = run.config["measure"].get("uncertified")
            is_published = run.config["build"].get("as_published")
            if not planned or is_trained or is_published:
                continue
            why = _why_refused(run, planned, place)
            if why:
                refused[run.name] = why
    return refused


def _why_refused(run: Run, planned: PlannedCertificate, place: Place) -> Reason | None:
    """Why a run is not trained, by its certificate; None if it is trained.

    `planned`: its certificate. One that was made of another plan does not count.
    """
    folder = place.folder / "certificates"
    key = str(run.certificate)
    try:
        made = certificate_of(read_json(folder / f"{key}.json"), key)
    except RecordError:
        return None
    rnn = label_of(run.choices["rnn"], run.overrides, "rnn")
    device = label_of(run.choices["device"], run.overrides, "device")
    entry = made.implementations.get(rnn)
    if entry is None or made.digest != planned.digest:
        return None
    wrong = entry.wrong_on(device)
    if not wrong:
        return None

    if entry.status == "refused":
        return Reason(
            NOT_CERTIFIED,
            f"refused: {wrong}",
            f"measure without rnn={rnn}, or change the model.",
        )

    whose = f"rnn={rnn}"
    correct = "correct the model, the data or the options"
    trains = " +measure.uncertified=true trains it all the same."

    fault = made.fault_of_all(planned.computed_by)
    file = run.config["rnn"]["implementation"]
    if fault:
        whose = "every implementation"
        wrong = fault.function_why
        trains = ""
        data = run.config["dataset"].get("path") or "made by the model"
        function = run.config["model"]["function"].rpartition(":")[0]
        correct = f"correct the model ({function}), the data ({data}) or the options"
    if entry.code == OUT_OF_MEMORY:
        correct = LESS_MEMORY
    elif not fault and is_user_file(file):
        correct = f"correct {file} or its YAML (docs/own_kernel.md)"

    log = folder / "work" / f"{key}.log"
    tried = [each.name for each in planned.devices]
    # The first device tests the function too. Its log has no number.
    if device in tried[1:] and not entry.function_why:
        log = folder / "work" / f"{key}.{tried.index(device)}.log"
    return Reason(
        NOT_CERTIFIED,
        f"not trained, because the certificate of {whose} failed: {wrong}",
        f"{correct}; {os.path.relpath(log, place.root)} has the details.{trains}",
    )
