"""``fork_server.py MODULE …``: imports the modules and runs scripts in forks of this process, for
`tests.worker.forked`. It is run by the interpreters of all builds, so in the syntax of Python 3.6.

Each line of standard input is a script as JSON: ``script``, ``arguments``, ``environment``, and the
files ``stdout`` and ``stderr``. Standard output has two lines for each: ``{"pid"}`` when it begins;
``{"exit_code", "cpu_seconds"}`` at its end, with the time of this process since the one before.
"""

import importlib
import json
import os
import sys
import traceback


def main(modules):
    # What else writes to standard output, such as an import, must not answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in modules:
        importlib.import_module(name)
    before = 0.0
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if not pid:
            run(json.loads(line))
        say(answers, {"pid": pid})
        _, status, used = os.wait4(pid, 0)
        exit_code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        times = os.times()
        own = times.user + times.system
        cpu_seconds = used.ru_utime + used.ru_stime + own - before
        before = own
        say(answers, {"exit_code": exit_code, "cpu_seconds": cpu_seconds})


def say(answers, answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def run(request):
    """Runs the script in this process, the fork, and ends it."""
    # The descriptors too, for what C++ writes.
    files = (os.devnull, request["stdout"], request["stderr"])
    for descriptor, file in enumerate(files):
        os.dup2(os.open(file, os.O_WRONLY if descriptor else os.O_RDONLY), descriptor)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c"] + request["arguments"]
    exit_code = 0
    try:
        exec(request["script"], {"__name__": "__main__"})
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        exit_code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
