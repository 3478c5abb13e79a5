#!/bin/sh
# status.sh ID: prints success, failed or running. While slurmctld is unreachable, the status is
# unknown and printed as running, so that Snakemake asks again. The script never fails, because
# Snakemake would end.
status=$(squeue --noheader --states=all --format='%T %k' --jobs="$1" 2>&1)
code=$?
case "$code:$status" in
*"Invalid job id"* | 0:)
    # slurmctld has dropped the job (MinJobAge), but accounting, if there is any, has it. Without
    # accounting, Snakemake checks for the output itself.
    status=$(sacct --noheader --parsable2 --allocations --format=State --jobs="$1" 2>/dev/null)
    status=${status:-COMPLETED}
    ;;
0:*) ;;
*) status=UNKNOWN ;;
esac
case "${status%% *}" in
COMPLETED) echo success ;;
BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT)
    echo "Slurm job $1: $status" >&2
    echo failed
    ;;
*) echo running ;;
esac
