#!/usr/bin/env bash
# A program imports TensorFlow 2 and starts another Python, with packages of its own, that runs TensorFlow 1.
#
# Expected: the child behaves as if it was started from a shell; an import changes the process that does it.
# What happens: the import sets TF2_BEHAVIOR=1 in the environment, which every child inherits. TensorFlow 1.15 reads it and is eager
#   from the start: placeholders raise, and Keras makes no graph. Without the variable, or if the program imports nothing, it is not.
# Versions: tensorflow-cpu 2.21.0 (Python 3.11) as the parent; tensorflow 1.15.5 (Python 3.7) as the child.
# Seen on 2026-11-29: the child of a parent that
#   imported nothing      eager False   placeholder made
#   imported TensorFlow   eager True    placeholder RuntimeError
# Why it matters: a notebook or a test that compares releases measures another TensorFlow 1 than the same comparison from a shell.
set -euo pipefail
interpreter() {
    if "python$1" -c '' 2> /dev/null; then command -v "python$1"; return; fi
    local prefix
    prefix=$(pyenv prefix "$1" 2> /dev/null) || { echo "this needs python$1" >&2; return 2; }
    echo "$prefix/bin/python$1"
}
python37=$(interpreter 3.7)
python311=$(interpreter 3.11)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset TF2_BEHAVIOR
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=

cat > "$folder/child.py" <<'PY'
import tensorflow as tf

assert tf.__version__ == "1.15.5"
try:
    tf.compat.v1.placeholder("float32")
    made = "made"
except RuntimeError:
    made = "RuntimeError"
print("eager %s placeholder %s" % (tf.executing_eagerly(), made))
PY
cat > "$folder/parent.py" <<'PY'
import subprocess
import sys

imports, child, script = sys.argv[1] == "import", sys.argv[2], sys.argv[3]
if imports:
    import tensorflow as tf

    assert tf.__version__ == "2.21.0"
print(subprocess.check_output([child, "-W", "ignore", script], text=True).strip())
PY

"$python37" -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow==1.15.5' 'protobuf==3.20.3' 'numpy==1.18.5' 2> /dev/null
"$python311" -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'tensorflow-cpu==2.21.0'
plain=$("$folder/new/bin/python" "$folder/parent.py" nothing "$folder/old/bin/python" "$folder/child.py" 2> /dev/null)
imported=$("$folder/new/bin/python" "$folder/parent.py" import "$folder/old/bin/python" "$folder/child.py" 2> /dev/null)
echo "nothing      $plain"
echo "TensorFlow   $imported"
[ "$plain" = "eager False placeholder made" ] && [ "$imported" = "eager True placeholder RuntimeError" ] \
    || { echo "differs from the header" >&2; exit 1; }
