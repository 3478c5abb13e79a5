"""Measures how much CPU time the run and other processes used during a phase.

Source: ``/proc/stat`` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal in
clock ticks since boot, per processor.
"""

import os
import resource


def snapshot():
    """Returns the CPU time of each processor and of this process with its children, so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "processors": _processors(),
        "own": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        "major_faults": own.ru_majflt,
        "switched_out": own.ru_nivcsw,
    }


def difference(before, after):
    """Returns the CPU seconds between two snapshots: `own` (this run), `busy` (all processes on
    this run's processors), `foreign` (busy minus own, at least 0), `steal` (taken by the
    hypervisor); and the numbers of major faults and involuntary context switches. `busy`,
    `foreign` and `steal` are absent if ``/proc/stat`` has no data."""
    result = {
        "own": after["own"] - before["own"],
        "major_faults": after["major_faults"] - before["major_faults"],
        "switched_out": after["switched_out"] - before["switched_out"],
    }
    usable = processors()
    busy = steal = 0.0
    for number, (busy_after, steal_after) in after["processors"].items():
        if number in usable and number in before["processors"]:
            busy_before, steal_before = before["processors"][number]
            busy += busy_after - busy_before
            steal += steal_after - steal_before
    if after["processors"]:
        result.update(busy=busy, steal=steal, foreign=max(0.0, busy - result["own"]))
    return result


def processors():
    """Returns the numbers of the processors that this process may use; empty if unknown."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def total(first, second):
    """Returns the sum of two differences. `foreign` is computed from the sums, because the kernel
    counts busy time in ticks of 10 ms, and over a short time often has one too many or too few."""
    sums = {name: first.get(name, 0) + value for name, value in second.items()}
    if "busy" in sums:
        sums["foreign"] = max(0.0, sums["busy"] - sums["own"])
    return sums


def _processors(file="/proc/stat"):
    ticks_per_second = float(os.sysconf("SC_CLK_TCK"))
    processors, has_data = {}, False
    try:
        with open(file) as stream:
            for line in stream:
                if line.startswith("cpu") and line[3].isdigit():
                    fields = line.split()
                    ticks = [int(field) for field in fields[1:9]]
                    has_data = has_data or any(ticks)
                    busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
                    processors[int(fields[0][3:])] = (
                        busy / ticks_per_second,
                        ticks[7] / ticks_per_second,
                    )
    except OSError:
        pass
    # Some sandboxes (gVisor) list only zeros.
    return processors if has_data else {}
