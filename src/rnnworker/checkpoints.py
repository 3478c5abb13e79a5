"""Answers questions about checkpoints with the framework of this build: `main` calls the function
``action`` of ``job.json`` with the keywords of ``question``, and writes ``answer.json`` and, if
there are arrays, ``answer.npz``. It is started by `rnnbench.running.in_build`.
"""

import json
import os

import numpy

from rnnworker.checkpoint_checks import check, outputs, resave
from rnnworker.checkpoint_readers import Refusal, tensorflow, torch

ACTIONS = {
    "tensorflow": tensorflow,
    "torch": torch,
    "resave": resave,
    "check": check,
    "outputs": outputs,
}


def main(folder):
    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    question = job["question"]
    given = os.path.join(folder, "question.npz")
    if os.path.exists(given):
        with numpy.load(given, allow_pickle=False) as file:
            question["arrays"] = {name: file[name] for name in file.files}
    action = ACTIONS[job["action"]]
    try:
        answer = action(**question)
        arrays = answer.pop("arrays", None)
        if arrays is not None:
            numpy.savez(os.path.join(folder, "answer.npz"), **arrays)
    except Refusal as error:
        what, remedy = error.args
        answer = {"error": what, "remedy": remedy}
    written = os.path.join(folder, "answer.new")
    with open(written, "w") as file:
        json.dump(answer, file)
    os.replace(written, os.path.join(folder, "answer.json"))
