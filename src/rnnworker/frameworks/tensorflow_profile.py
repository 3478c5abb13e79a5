"""Which ops TensorFlow executed, from its profiler: not what a graph holds, but what ran.

A graph may hold several implementations of one layer, of which the optimizer or the placement
takes one when it runs; the profile names the ops whose kernels were started.
"""

import glob
import os
import shutil
import tempfile

COMPILED = ("ThunkExecutor::", "CpuExecutable::", "GpuExecutable::")
COMPILED_ON_GPU = ":XLA GPU module"  # ends the event's name (XLA's gpu_executable.cc)


def executed_ops(tensorflow, run):
    """Calls `run` under the profiler → [(path of the op, op type, how often it ran)]. Source:
    the events of the host's plane of the XSpace, named ``path:Type``; one per start."""
    # TensorFlow tells of ops that it takes for cheap at level 3 only: all ops on a GPU, and on a
    # CPU those that took little so far (GetTFTraceMeLevel and OpKernel::IsExpensive). The device's
    # own tracer would leave CUPTI in a process that is about to be timed.
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
    """A number that TensorFlow 2.21 does not take for a truth value: it converts an option to the
    first type that fits, of bool, int and str, and then ignores one that should have been an int
    (``SetOption`` in tsl/profiler/utils/session_manager.cc: "expects an i value")."""

    def __bool__(self):
        raise TypeError("a level of the profiler is no truth value")


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
