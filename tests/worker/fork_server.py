"""``fork_server.py SOCKET MODULE …``: imports the modules and runs scripts in forks of this
process, for `tests.worker.forked`. It is run by the interpreters of all builds, so in the syntax of
Python 3.6.

It listens on a Unix socket until its standard input is closed. A fork serves each connection; one
line of it is a script as JSON: ``script``, ``arguments``, ``environment``, and the files ``stdout``
and ``stderr``. There are two lines of answer to each: ``{"pid"}`` when it begins; ``{"exit_code",
"cpu_seconds"}`` at its end, with the time of the fork since the one before, and at the first end of
all with that of the imports.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback


def main(path, modules):
    # What else writes to standard output, such as an import, must not reach the terminal.
    os.dup2(2, 1)
    # Collections would traverse the framework again and again, and free next to nothing.
    gc.disable()
    for name in modules:
        importlib.import_module(name)
    if hasattr(gc, "freeze"):
        gc.freeze()
    gc.enable()
    gc.set_threshold(50000, 20, 10)
    listener = socket.socket(socket.AF_UNIX)
    # An address has at most 107 bytes, a path may have more.
    parent = os.open(os.path.dirname(path), os.O_DIRECTORY)
    listener.bind(f"/proc/self/fd/{parent}/{os.path.basename(path)}")
    os.close(parent)
    listener.listen(8)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what serves a connection
    imported = seconds()
    while True:
        ready = select.select([listener, 0], [], [])[0]
        if listener not in ready:
            return
        connection = listener.accept()[0]
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            serve(connection, imported)
            os._exit(0)
        connection.close()
        imported = 0.0


def serve(connection, imported):
    """Runs the scripts of a connection one after another. `imported`: CPU seconds of the imports,
    which nobody has been told."""
    requests = connection.makefile("r")
    answers = connection.makefile("w")
    before = -imported
    for line in iter(requests.readline, ""):
        pid = os.fork()
        if not pid:
            run(json.loads(line))
        say(answers, {"pid": pid})
        _, status, used = os.wait4(pid, 0)
        exit_code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        own = seconds()
        cpu_seconds = used.ru_utime + used.ru_stime + own - before
        before = own
        say(answers, {"exit_code": exit_code, "cpu_seconds": cpu_seconds})


def seconds():
    """CPU seconds of this process, without its children."""
    times = os.times()
    return times.user + times.system


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
    for name, module in list(sys.modules.items()):
        # Sources that TensorFlow removes at the end of a process that ends as usual.
        if name.startswith("__autograph_generated_file") and os.path.exists(module.__file__):
            os.unlink(module.__file__)
    os._exit(exit_code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
