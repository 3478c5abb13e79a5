#!/bin/sh
# status.sh ID: success, failed or running. While slurmctld is away a job is "running": nothing is
# known, and nothing is lost by asking again. Never fails, or Snakemake would end.
said=$(squeue --noheader --states=all --format='%T %k' --jobs="$1" 2>&1)
code=$?
case "$code:$said" in
*"Invalid job id"* | 0:)
    # Slurm has forgotten it (MinJobAge); its accounting, where there is one, has not. Otherwise
    # Snakemake looks for the output itself.
    said=$(sacct --noheader --parsable2 --allocations --format=State --jobs="$1" 2>/dev/null)
    said=${said:-COMPLETED}
    ;;
0:*) ;;
*) said=UNKNOWN ;;
esac
case "${said%% *}" in
COMPLETED) echo success ;;
BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT)
    echo "Slurm job $1: $said" >&2
    echo failed
    ;;
*) echo running ;;
esac
