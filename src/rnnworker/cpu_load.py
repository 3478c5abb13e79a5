"""Who used the processors during a phase: the run itself, the rest of the host, nobody.

Source: ``/proc/stat`` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal in
clock ticks since boot, per processor.
"""

import os
import resource


def snapshot():
    """Ticks per processor and this process's own use, children included."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "processors": _processors(),
        "own": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        "major_faults": own.ru_majflt,
        "switched_out": own.ru_nivcsw,
    }


def difference(before, after):
    """Seconds between two snapshots: `own` (this run), `busy` (all processes on this run's
    processors), `foreign` (busy minus own, at least 0; on the run's processors), `steal`
    (taken by the hypervisor), and counts of major faults and involuntary switches. Where
    ``/proc/stat`` says nothing, `busy`, `foreign` and `steal` are absent: unknown."""
    result = {
        "own": after["own"] - before["own"],
        "major_faults": after["major_faults"] - before["major_faults"],
        "switched_out": after["switched_out"] - before["switched_out"],
    }
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    busy = steal = 0.0
    for number, ticks in after["processors"].items():
        if number in mine and number in before["processors"]:
            earlier = before["processors"][number]
            busy += ticks[0] - earlier[0]
            steal += ticks[1] - earlier[1]
    if after["processors"]:
        result.update(busy=busy, steal=steal, foreign=max(0.0, busy - result["own"]))
    return result


def total(one, other):
    """The sum of two differences. What is foreign comes from the sums: the kernel counts what is
    busy in ticks of 10 ms, and in a short time has often counted one too many or too few."""
    found = {name: one.get(name, 0) + value for name, value in other.items()}
    if "busy" in found:
        found["foreign"] = max(0.0, found["busy"] - found["own"])
    return found


def _processors(file="/proc/stat"):
    ticks_per_second = float(os.sysconf("SC_CLK_TCK"))
    processors, said = {}, False
    try:
        with open(file) as stream:
            for line in stream:
                if line.startswith("cpu") and line[3].isdigit():
                    fields = line.split()
                    ticks = [int(field) for field in fields[1:9]]
                    said = said or any(ticks)
                    busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
                    processors[int(fields[0][3:])] = (
                        busy / ticks_per_second,
                        ticks[7] / ticks_per_second,
                    )
    except OSError:
        pass
    # Some sandboxes (gVisor) list processors that never did anything: that says nothing of them.
    return processors if said else {}
