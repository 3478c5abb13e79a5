"""Facts about TensorFlow: its build's versions, compiler options and messages about this processor,
and the ops that it executed, according to its profiler.

A graph may contain several implementations of one layer, of which the graph optimizer or the
placement chooses one at run time; the profile names the ops whose kernels were started.
"""

import collections
import contextlib
import glob
import os
import re
import shutil
import sys
import tempfile

COMPILED = ("ThunkExecutor::", "CpuExecutable::", "GpuExecutable::")
COMPILED_ON_GPU = ":XLA GPU module"  # ends the event's name (XLA's gpu_executable.cc)

import_messages = []  # what TensorFlow printed when it was imported before a fork
# TensorFlow 1: "… instructions that this TensorFlow binary was not compiled to use: AVX2 FMA",
# 1.2 on one line each: "wasn't compiled to use SSE4.1 instructions, but these are available".
# TensorFlow 2: "To enable the following instructions: AVX2 FMA, in other operations, rebuild".
UNUSED = (
    re.compile(r"not compiled to use: ([A-Z0-9_. ]+)"),
    re.compile(r"wasn't compiled to use ([A-Z0-9_.]+) instructions"),
    re.compile(r"To enable the following instructions: ([A-Z0-9_. ]+?),? in other operations"),
)


def facts(tensorflow, messages):
    """The facts for the record's ``environment`` as plain data; None for those that this version
    does not report. `messages`: what TensorFlow printed when it opened the device."""
    sysconfig = tensorflow.sysconfig
    flags = _called(sysconfig, "get_compile_flags") or []
    return {
        "tensorflow": tensorflow.__version__,
        "tensorflow_git": getattr(tensorflow, "__git_version__", None),
        "compiler": getattr(tensorflow, "__compiler_version__", None),
        "build_info": _build_info(tensorflow),
        # Without the folders of this machine, which do not describe the build.
        "compile_flags": [flag for flag in flags if not flag.startswith(("-I", "-L"))],
        "instructions_not_compiled_for": unused_instructions(messages),
        "onednn_on": onednn_on(messages),
        "onednn": onednn_version(_called(sysconfig, "get_include")),
    }


def unused_instructions(messages):
    """Instruction sets that this processor has and the binary's own code was not compiled for,
    sorted; empty if TensorFlow names none. (oneDNN's kernels choose theirs at run time.)"""
    names = set()
    for pattern in UNUSED:
        for match in pattern.finditer(messages):
            names.update(match.group(1).split())
    return sorted(names)


def onednn_on(messages):
    """True if TensorFlow reports that oneDNN is on, else None: it never reports that it is off."""
    return True if "oneDNN custom operations are on" in messages else None


def onednn_version(include):
    """The version of the built-in oneDNN, such as ``3.2.1``, from TensorFlow's own headers; None
    if there is no such header: in 1.x and in wheels of 2.x without it, such as 2.21's."""
    header = os.path.join(include or "", "external/onednn/include/oneapi/dnnl/dnnl_version.h")
    if not os.path.exists(header):
        return None
    with open(header) as file:
        parts = dict(re.findall(r"#define DNNL_VERSION_(MAJOR|MINOR|PATCH) (\d+)", file.read()))
    return ".".join(parts.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))


@contextlib.contextmanager
def captured_stderr():
    """Captures standard error in the block, the lines of C++ code too, and prints it afterwards.
    Yields a list that contains the captured text after the block."""
    captured = []
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield captured
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            output = file.read()
            captured.append(output.decode("utf-8", "replace"))
            os.write(2, output)


def _build_info(tensorflow):
    info = _called(tensorflow.sysconfig, "get_build_info")
    if info is None:
        try:
            from tensorflow.python.platform import build_info
        except ImportError:
            return None
        info = {name: getattr(build_info, name) for name in dir(build_info) if name[0] != "_"}
    simple = (str, int, float, bool, list, tuple)
    return {name: str(value) for name, value in info.items() if isinstance(value, simple)}


def _called(module, name):
    return getattr(module, name)() if hasattr(module, name) else None


def executed_ops(tensorflow, run):
    """Calls `run` under the profiler and returns [(path of the op, op type, count)]. Source: the
    events in the host's plane of the XSpace, one per start of an op, named ``path:Type``."""
    # TensorFlow reports ops that it considers cheap only at level 3: all ops on a GPU, and on a
    # CPU those that took little time so far (GetTFTraceMeLevel and OpKernel::IsExpensive). The
    # device tracer would leave CUPTI in a process that is about to be timed.
    options = tensorflow.profiler.experimental.ProfilerOptions(
        host_tracer_level=Level(3), device_tracer_level=Level(0)
    )
    folder = tempfile.mkdtemp(prefix="rnnworker-profile-")
    try:
        tensorflow.profiler.experimental.start(folder, options)
        try:
            run()
        finally:
            tensorflow.profiler.experimental.stop()
        pattern = os.path.join(folder, "**", "*.xplane.pb")
        file = glob.glob(pattern, recursive=True)[0]
        return _ops(_space(file))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a thread may still write into it


class Level(int):
    """An integer that TensorFlow 2.21 does not take for a boolean. TensorFlow converts an option
    to the first of bool, int and str that fits, and then ignores a boolean in place of an integer
    (``SetOption`` in tsl/profiler/utils/session_manager.cc: "expects an i value")."""

    def __bool__(self):
        raise TypeError("a profiler level is not a boolean")


def _space(file):
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError:
        from tensorflow.core.profiler.protobuf import xplane_pb2
    space = xplane_pb2.XSpace()
    with open(file, "rb") as stream:
        space.ParseFromString(stream.read())
    return space


def _ops(space):
    counts = collections.Counter()
    for plane in space.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        for line in plane.lines:
            for event in line.events:
                metadata = plane.event_metadata[event.metadata_id]
                counts[metadata.name] += 1
    ops = []
    for name, count in sorted(counts.items()):
        if name.startswith(COMPILED) or name.endswith(COMPILED_ON_GPU):
            ops.append((name, "XlaLaunch", count))
        path, _, kind = name.rpartition(":")
        # The profiler's own events are named Class::Method.
        if path and not path.endswith(":") and kind.isidentifier():
            ops.append((path, kind, count))
    return ops
