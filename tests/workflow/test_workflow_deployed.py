"""Another project uses the workflow: deployed by snakedeploy from a git repository, which stands
for one on GitHub, and as a module in a workflow with rules and hooks of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rnnbench.tracking import store
from tests.conftest import ROOT, Project

TAG = "v9"
OVERRIDES = ["build=fake", "rnn=keras,cell", "device=cpu_1", "repeat=range(2)"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with this checkout's files, as they are now, in a commit with the `TAG`."""
    # snakedeploy takes a path with "github" in it for a repository on GitHub.
    folder = tmp_path_factory.mktemp("github") / "owner" / "rnnbench"
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init"], ["add", "."], [*author, "commit", "-m", "All"], ["tag", TAG]):
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return folder


def project_in(folder: Path, repository: Path) -> Project:
    """A project with choices of its own in ``bench``, and access to the `repository`."""
    folder.mkdir(exist_ok=True)
    shutil.copytree(ROOT / "tests/conf", folder / "bench")
    project = Project.at(folder)
    del project.environment["PYTHONPATH"]
    project.environment |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{repository.parents[1]}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    return project


def snakemake(project: Project, *arguments: str) -> str:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    done = project.run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_deployed_project_runs_quick(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    program = Path(sys.executable).with_name("snakedeploy")
    deploy = [program, "deploy-workflow", repository, folder, "--tag", TAG]
    subprocess.run(deploy, check=True, capture_output=True)
    assert 'github("owner/rnnbench", path="workflow/Snakefile", tag="v9")' in (
        (folder / "workflow/Snakefile").read_text()
    )
    project = project_in(folder, repository)
    settings = yaml.safe_load((folder / "config/config.yaml").read_text())
    settings |= {"conf": ["bench"], "overrides": OVERRIDES}
    (folder / "config/config.yaml").write_text(yaml.safe_dump(settings))
    before = sorted(path.name for path in folder.iterdir())

    assert "profiles/default" in snakemake(project, "--dry-run")
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, ".snakemake"])
    snakemake(project)
    (page,) = folder.glob("reports/quick+*/report.html")
    assert len(project.records()) == len(project.finished(page.parent.name)) == 4
    # The code is that of the tag.
    (source,) = (folder / ".snakemake/rnnbench").iterdir()
    commit = subprocess.run(
        ["git", "rev-parse", TAG], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert source.name == commit
    assert "Nothing to be done" in snakemake(project)
    # The commands use the project's settings.
    project.environment["PYTHONPATH"] = str(source / "src")
    assert "4 grid points: 4 run" in project.rnnbench("grid").stdout
    assert "4 runs in 2 rounds, 4 done" in project.rnnbench("plan").stdout
    assert project.rnnbench("report", page.parent.name).returncode == 0


MODULE = """
configfile: "config/config.yaml"

module rnnbench:
    snakefile: "git+file://{repository}/workflow/Snakefile@{tag}"
    config: config["rnnbench"]

use rule * from rnnbench as rnnbench_*

use rule report from rnnbench as rnnbench_report with:
    priority: 7

rule fastest:
    default_target: True
    input: "reports/small/tables/time.csv"
    output: "fastest.csv"
    shell: "cp {{input}} {{output}}"

onstart: print("own start")
onsuccess: print("own end")
"""


def test_a_module_runs_with_the_rules_and_hooks_of_its_importer(
    repository: Path, tmp_path: Path
) -> None:
    project = project_in(tmp_path / "project", repository)
    for name in ("config", "workflow"):
        (project.folder / name).mkdir()
    settings = {"rnnbench": {"experiment": "small", "conf": "bench"}}
    (project.folder / "config/config.yaml").write_text(yaml.safe_dump(settings))
    text = MODULE.format(repository=repository, tag=TAG)
    (project.folder / "workflow/Snakefile").write_text(text)
    store._create(project.folder / "mlflow.db")
    output = snakemake(project)
    assert (project.folder / "fastest.csv").read_text().count("\n") == 3
    assert "own start" in output and "own end" in output
    assert "rnnbench: the report is reports/small/report.html" in output
    assert len(project.records()) == 4


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("    prefix: 'sub'", "has a prefix"),
        ("    replace_prefix: {'results/': 'mine/'}", "has a prefix"),
        (
            "module other:\n"
            "    snakefile: 'SNAKEFILE'\n"
            "    config: {'experiment': 'selftest', 'conf': 'bench'}\n"
            "use rule * from other as other_*",
            "the modules of one workflow request selftest at",
        ),
    ],
)
def test_a_module_that_cannot_work_is_refused(
    project: Project, statement: str, message: str
) -> None:
    shutil.copytree(ROOT / "tests/conf", project.folder / "bench")
    (project.folder / "Snakefile").write_text(
        "module rnnbench:\n"
        "    snakefile: 'SNAKEFILE'\n"
        "    config: {'experiment': 'small', 'conf': 'bench'}\n"
        f"{statement}\n"
        "use rule * from rnnbench\n".replace("SNAKEFILE", str(ROOT / "workflow/Snakefile"))
    )
    done = project.run([sys.executable, "-m", "snakemake", "--cores", "2", "-n"])
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
