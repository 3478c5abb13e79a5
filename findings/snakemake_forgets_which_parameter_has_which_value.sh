#!/usr/bin/env bash
# A Snakemake rule whose output exists, after its params were edited.
#
# Expected: Snakemake runs the rule again when a parameter has changed ("params" is one of its rerun triggers, on by default).
# What happens: it keeps the values without their names and compares them as a set. Units and batch size that change places, a value
#   that becomes equal to another one, and a new parameter with a value that is there already are "Nothing to be done". So are
#   changes of a NumPy array or a timedelta, which are not kept at all. One number that no other parameter has is noticed.
# Versions: snakemake 9.27.1, numpy 2.4.6, Python 3.11.
# Seen on 2026-11-29:
#   units=32, batch=64                  -> units=64, batch=32:                   nothing to be done
#   units=32, batch=64, epochs=64       -> units=32, batch=32, epochs=64:        nothing to be done
#   units=32                            -> units=32, layers=32:                  nothing to be done
#   rates=np.array([0.1])               -> rates=np.array([0.2]):                nothing to be done
#   limit=timedelta(hours=1)            -> limit=timedelta(hours=2):             nothing to be done
#   units=32, batch=64                  -> units=32, batch=128:                  runs again
# Why it matters: a sweep shows the results of the settings before. One parameter with a digest or a text of all of them is safe.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'snakemake==9.27.1' 'numpy==2.4.6'

write() {
    cat > Snakefile <<RULE
import numpy as np
from datetime import timedelta

rule train:
    output: "trained"
    params: $1
    shell: "echo {params} > {output}"
RULE
}
ask() {
    local before=$1 after=$2 expected=$3 seen log
    rm -rf "$folder/work"
    mkdir "$folder/work"
    cd "$folder/work"
    write "$before"
    "$folder/venv/bin/snakemake" --cores 1 --quiet all > log 2>&1 || { tail -3 log; exit 1; }
    write "$after"
    log=$("$folder/venv/bin/snakemake" --cores 1 --dry-run 2>&1) || { echo "$log"; exit 1; }
    case $log in
        *"Nothing to be done"*) seen="nothing to be done" ;;
        *"Params have changed"*) seen="runs again" ;;
        *) seen="something else" ;;
    esac
    echo "$before -> $after: $seen"
    [ "$seen" = "$expected" ] || { echo "differs from the header"; exit 1; }
}
ask 'units=32, batch=64' 'units=64, batch=32' "nothing to be done"
ask 'units=32, batch=64, epochs=64' 'units=32, batch=32, epochs=64' "nothing to be done"
ask 'units=32' 'units=32, layers=32' "nothing to be done"
ask 'rates=np.array([0.1])' 'rates=np.array([0.2])' "nothing to be done"
ask 'limit=timedelta(hours=1)' 'limit=timedelta(hours=2)' "nothing to be done"
ask 'units=32, batch=64' 'units=32, batch=128' "runs again"
