"""What a TensorFlow is: versions, how it was built, and what it says about this processor."""

import contextlib
import os
import re
import sys
import tempfile

import numpy

from rnnworker.frameworks.packages import installed

_SAID_BEFORE = []
# TensorFlow 1: "… instructions that this TensorFlow binary was not compiled to use: AVX2 FMA",
# 1.2 with one line each: "wasn't compiled to use SSE4.1 instructions, but these are available".
# TensorFlow 2: "To enable the following instructions: AVX2 FMA, in other operations, rebuild".
UNUSED = (
    re.compile(r"not compiled to use: ([A-Z0-9_. ]+)"),
    re.compile(r"wasn't compiled to use ([A-Z0-9_.]+) instructions"),
    re.compile(r"To enable the following instructions: ([A-Z0-9_. ]+?),? in other operations"),
)


def facts(tensorflow, keras, said):
    """Plain data for the record's ``environment``; `said` is what TensorFlow printed when it
    opened the device. What a version cannot tell is None."""
    sysconfig = tensorflow.sysconfig
    return {
        "tensorflow": tensorflow.__version__,
        "keras": keras_version(keras),
        "numpy": numpy.__version__,
        "tensorflow_git": getattr(tensorflow, "__git_version__", None),
        "compiler": getattr(tensorflow, "__compiler_version__", None),
        "build_info": _build_info(tensorflow),
        "compile_flags": _flags(_called(sysconfig, "get_compile_flags")),
        "instructions_not_compiled_for": unused_instructions(said),
        "onednn_on": onednn_on(said),
        "onednn": onednn_version(_called(sysconfig, "get_include")),
        "packages": installed(),
    }


def _flags(flags):
    """Without the folders of this machine, which say nothing of the build."""
    return [flag for flag in flags or [] if not flag.startswith(("-I", "-L"))]


def keras_version(keras):
    """``tensorflow.keras`` of TensorFlow 2 is a shell without a version; behind it is a package."""
    if hasattr(keras, "__version__"):
        return keras.__version__
    return sys.modules[keras.Model.__module__.partition(".")[0]].__version__


def unused_instructions(said):
    """What this processor has and the binary's own code was not compiled for, sorted; empty
    where TensorFlow names none. (oneDNN's kernels choose their instructions at run time.)"""
    found = set()
    for pattern in UNUSED:
        for match in pattern.finditer(said):
            found.update(match.group(1).split())
    return sorted(found)


def onednn_on(said):
    """True where TensorFlow says so; None where it says nothing, as when it is off."""
    return True if "oneDNN custom operations are on" in said else None


def onednn_version(include):
    """``3.2.1`` of the oneDNN that was built in, from the headers that came with TensorFlow; None
    where there is none: 1.x, and wheels of 2.x that leave its header out, as 2.21's do."""
    place = os.path.join(include or "", "external/onednn/include/oneapi/dnnl/dnnl_version.h")
    if not os.path.exists(place):
        return None
    with open(place) as file:
        found = dict(re.findall(r"#define DNNL_VERSION_(MAJOR|MINOR|PATCH) (\d+)", file.read()))
    return ".".join(found.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))


@contextlib.contextmanager
def heard():
    """Yields a list that holds, after the block, what was printed to standard error in it,
    the C++ code's lines too. They are printed then."""
    lines = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            said = file.read()
            lines.append(said.decode("utf-8", "replace"))
            os.write(2, said)


def remember(said):
    """Keeps what TensorFlow said when it was imported before a fork, for `said_before`."""
    _SAID_BEFORE.append(said)


def said_before():
    return "".join(_SAID_BEFORE)


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
