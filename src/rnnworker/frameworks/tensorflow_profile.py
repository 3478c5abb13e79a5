"""The ops that TensorFlow executed, according to its profiler.

A graph may contain several implementations of one layer, of which the graph optimizer or the
placement chooses one at run time; the profile names the ops whose kernels were started.
"""

import glob
import os
import shutil
import tempfile

COMPILED = ("ThunkExecutor::", "CpuExecutable::", "GpuExecutable::")
COMPILED_ON_GPU = ":XLA GPU module"  # ends the event's name (XLA's gpu_executable.cc)


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
        return _ops(_space(glob.glob(pattern, recursive=True)[0]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    counts = {}
    for plane in space.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                counts[name] = counts.get(name, 0) + 1
    ops = []
    for name, count in sorted(counts.items()):
        if name.startswith(COMPILED) or name.endswith(COMPILED_ON_GPU):
            ops.append((name, "XlaLaunch", count))
        path, _, kind = name.rpartition(":")
        # The profiler's own events are named Class::Method.
        if path and not path.endswith(":") and kind.isidentifier():
            ops.append((path, kind, count))
    return ops
