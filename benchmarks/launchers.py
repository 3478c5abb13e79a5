"""Measures one grid with this workflow, with Hydra's multirun and with a shell loop.

    .venv/bin/python benchmarks/launchers.py [--repeats 3] [--epochs 5 | --small]

Each launcher trains LSTM(32) and LSTM(64) on the digits on one core and logs each epoch to an
MLflow store in SQLite. Hydra's multirun uses one process: TensorFlow is imported once, and each job
finds the state that earlier jobs left. The loop and the workflow start a process for each run. Only
the workflow repeats no finished run when it is started again, keeps raw records, attests and
certifies.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from tests.conftest import ROOT, Project, make_project  # noqa: E402

HERE = Path(__file__).parent
HYDRA = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
import hydra
import by_hand

@hydra.main(version_base=None, config_path=None, config_name="config")
def main(config):
    results = by_hand.train(config.units, config.seed, config.epochs, Path({data!r}))
    by_hand.log(f"lstm-{{config.units}}-{{config.seed}}", dict(config), results)

from hydra.core.config_store import ConfigStore
ConfigStore.instance().store(name="config", node={{"units": 32, "seed": 0, "epochs": 1}})
main()
"""
UNITS = (32, 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    add_small(parser)
    options = parser.parse_args()
    heading = where.heading()
    units, times = UNITS, 2
    if options.small:
        units, times, options.repeats, options.epochs = (8,), 1, 1, 1
    count = options.repeats * len(units)
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        prepare(project, units, options.repeats, options.epochs)
        launchers = commands(units, options.repeats, options.epochs)
        if options.small:
            launchers["rnnbench, plan only"] = project.command("-n", experiment="launched")
        else:
            launchers["rnnbench"] = project.command(experiment="launched")
        print(heading)
        print("| launcher | runs | s | s per run | the same command again, s |")
        print("|---|--:|--:|--:|--:|")
        for name, command in launchers.items():
            seconds = [timed(command, project) for _ in range(times)]
            again = f"{seconds[1]:.1f}" if times > 1 else "–"
            print(
                f"| {name} | {count} | {seconds[0]:.1f} | {seconds[0] / count:.2f} | {again} |",
                flush=True,
            )
    return 0


def prepare(project: Project, units: Sequence[int], repeats: int, epochs: int) -> None:
    grid = (
        f"model=digits_rnn rnn=keras device=cpu_1 model.units={','.join(map(str, units))} "
        f"model.epochs={epochs} seed=range({repeats})"
    )
    (project.conf / "experiment/launched.yaml").write_text(f"title: x\ngrids: ['{grid}']\n")
    result = project.rnnbench("dataset", "digits")
    if result.returncode:
        raise SystemExit(result.stderr)
    shutil.copy(HERE / "by_hand.py", project.folder)
    text = HYDRA.format(here=str(HERE), data=str(project.folder / "data/digits.npz"))
    (project.folder / "with_hydra.py").write_text(text)
    project.environment |= {
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def commands(units: Sequence[int], repeats: int, epochs: int) -> dict[str, list[str]]:
    """The commands of the other launchers."""
    seeds = ",".join(map(str, range(repeats)))
    loop = (
        f"for units in {' '.join(map(str, units))}; do for seed in {seeds.replace(',', ' ')}; do "
        f"python by_hand.py $units $seed {epochs} || exit 1; done; done"
    )
    grid = [f"units={','.join(map(str, units))}", f"seed={seeds}", f"epochs={epochs}"]
    return {
        "hydra --multirun": [sys.executable, "with_hydra.py", "--multirun", *grid],
        "shell loop": ["sh", "-c", loop],
    }


def timed(command: list[str], project: Project) -> float:
    store = {} if "snakemake" in command else {"MLFLOW_TRACKING_URI": "sqlite:///by_hand.db"}
    start = time.perf_counter()
    result = subprocess.run(
        command,
        cwd=project.folder,
        env={**project.environment, **store},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise SystemExit(result.stdout[-1500:] + result.stderr[-1500:])
    return time.perf_counter() - start


if __name__ == "__main__":
    assert ROOT.exists()
    sys.exit(main())
