"""Shared paths and fixtures, such as a separate project folder in which Snakemake can run."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import html
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import vl_convert
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from rnnbench.locks import locked
from rnnbench.records.rounds import Result, results_in
from rnnbench.records.store import Place, record_files
from rnnbench.tracking import store
from rnnworker import members
from tests import compositions, cpu_time, durations, forked_commands
from tests.worker import forked

# The same examples in every run, so that results are reproducible; `make faults` draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
if os.environ.get("RNNBENCH_FAULTS") != "all":
    settings.load_profile("suite")

store.prepare()  # Any test may import MLflow first, which reads its settings then.

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("RNNBENCH_SHARED", ROOT.parent / "shared"))

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

# A shell without job control starts background processes with SIGINT ignored, and their children
# inherit that: Snakemake would then rightly not end on Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# These files share one Slurm cluster; other files have separate fixtures. They mostly wait, so they
# begin, and run beside what computes.
CLUSTER = ("tests/cluster/test_cluster_faults.py", "tests/cluster/test_cluster_slurm.py")


@pytest.fixture(autouse=True)
def own_environment():
    """Undoes what a test leaves in the environment: TensorFlow 2 sets TF2_BEHAVIOR when it is
    imported, and TensorFlow 1 obeys it."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True, scope="session")
def copied_store(tmp_path_factory: pytest.TempPathFactory):
    """MLflow applies all its migrations to a new database, which takes 2 s of a processor. So the
    first test of a session that needs a store creates it, and the others copy that one."""

    forked_commands.template = shared_folder(tmp_path_factory) / "store/mlflow.db"
    copy = forked_commands.copying(forked_commands.template)
    with mock.patch.object(store, "_create", copy):
        yield


@pytest.fixture(autouse=True, scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    forked.folder = shared_folder(tmp_path_factory) / "forks"
    forked.folder.mkdir(exist_ok=True)


@pytest.fixture(autouse=True, scope="session")
def composed_once() -> Iterator[None]:
    with compositions.remembered():
        yield


@pytest.fixture(autouse=True, scope="session")
def without_fsync() -> Iterator[None]:
    """No test loses its power supply, and hundreds of files need not wait for the disk."""
    with mock.patch.object(os, "fsync", lambda descriptor: None):
        yield


draw_chart = vl_convert.vegalite_to_svg
SVG = 'xmlns="http://www.w3.org/2000/svg"'


@pytest.fixture(autouse=True, scope="session")
def charts_drawn_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drawing a chart takes up to 0.3 s of a processor, the same chart is always drawn in the same
    way, and pages of tests have many in common. In the quick tier, only
    ``tests/report/test_report_six.py`` draws, by `draw_chart`, and tests with `drawn_charts`; other
    pages have specifications."""
    drawn: dict[str, str] = {}
    is_quick = request.config.getoption("--quick")

    def remembered(chart: Any) -> str:
        key = json.dumps(chart)
        if is_quick:
            return f'<svg {SVG} viewBox="0 0 1 1"><desc>{html.escape(key)}</desc></svg>'
        if key not in drawn:
            drawn[key] = draw_chart(chart)
        return drawn[key]

    with mock.patch.object(vl_convert, "vegalite_to_svg", remembered):
        yield


@pytest.fixture
def drawn_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws charts in the quick tier, too."""
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", draw_chart)


# What `make test` leaves out, by what it needs; `make test-all` runs every test.
NEEDS_BY_PATH = {
    "benchmarks/": "Snakemake and frameworks",
    "cluster/": "Slurm and PostgreSQL",
    "exchange/test_exchange_bundle": "bundles that train",
    "faults/test_faults_": "processes that are killed",
    "outside/test_outside_bundles": "bundles that train",
    "rnnweights/tests/test_weights_random": "a framework",
    "worker/test_worker_random_models": "a framework in a separate process",
    "workflow/test_workflow_": "Snakemake",
}
# By a fixture, also if a parameter names it.
NEEDS_BY_FIXTURE = {
    "browser": "a browser",
    "measured_small": "Snakemake",
    "server": "an MLflow server",
}
# By a function that a test module imports from `tests.worker.building`.
BUILDING = "tests.worker.building"
NEEDS_BY_NAME = {
    "build_python": "the environments of old builds",
    "python_of": "the environments of old builds",
    "answer": "a framework in a separate process",
    "answer_of": "a framework in a separate process",
}


LARGE = 1_000_000  # bytes of a file
FAILED = pytest.StashKey[bool]()


class LargeFiles:
    """Removes large files from ``tmp_path`` once a test has passed: pytest keeps the folders of
    three sessions, in which they would take gigabytes. The folders stay, because their names must
    not be used again: much is remembered by path."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report = yield
        failed = item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        if report.when == "teardown" and folder and not failed:
            for path, _, names in os.walk(folder):
                for file in (Path(path, name) for name in names):
                    with contextlib.suppress(OSError):
                        if file.lstat().st_size > LARGE:
                            file.unlink()
        return report


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(durations.InTestProcess())
    config.pluginmanager.register(LargeFiles())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(durations.Summary(config.getoption("--record-durations")))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*cpu_time.SELDOM)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out tests that need Snakemake, servers, browsers, old builds or minutes",
    )
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write the seconds of each file to tests/durations.json, by which they are ordered; "
        "for a session of all tests",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick tier does not even import the files that it leaves out."""
    if not config.getoption("--quick") or not collection_path.is_relative_to(ROOT):
        return None
    path = _below(collection_path)
    return any(path.startswith(start.rstrip("/")) for start in NEEDS_BY_PATH) or None


def _below(path: Path) -> str:
    """A path without the folder of the tests, or of the packages, which have tests of their own."""
    return path.relative_to(ROOT).as_posix().removeprefix("tests/").removeprefix("packages/")


def needs(item: pytest.Item) -> str | None:
    """What a test needs beyond the project's own environment and a few seconds, or None."""
    marked = item.get_closest_marker("slow_tier")
    if marked is not None:
        (what,) = marked.args
        return what
    path = _below(item.path)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    fixtures = {*item.fixturenames, *(value for value in parameters if isinstance(value, str))}
    imported = {
        name
        for name in NEEDS_BY_NAME
        if getattr(getattr(item.module, name, None), "__module__", "") == BUILDING
    }
    found = [
        *(what for start, what in NEEDS_BY_PATH.items() if path.startswith(start)),
        *(what for name, what in NEEDS_BY_FIXTURE.items() if name in fixtures),
        *(NEEDS_BY_NAME[name] for name in imported),
    ]
    return next(iter(found), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects the tier. The slow tests begin, those of the longest files first, so that no process
    waits for a last long file."""
    walls = durations.recorded()

    def order(item: pytest.Item) -> tuple[bool, float]:
        file = item.nodeid.partition("::")[0]
        return file not in CLUSTER, -walls.get(file, 0)

    items.sort(key=order)
    slow = [item for item in items if needs(item)]
    quick = [item for item in items if not needs(item)]
    for item in slow:
        item.add_marker(pytest.mark.slow_tier(needs(item)))
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=slow)
        items[:] = quick
    else:
        items[:] = slow + quick


class ByFile(LoadScopeScheduling):
    """A file's tests stay in one process, and so do the tests that share one Slurm. Files are taken
    in the order of the tests; xdist would take those with the most tests first.

    xdist's own ``loadgroup`` has no effect with pytest 9.2: it writes the group into
    ``item._nodeid``, which is no longer read.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return CLUSTER[0] if file in CLUSTER else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


@dataclass
class Project:
    """A copy of the project's configuration in an empty folder, run with this checkout's code."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    conf: Path = ROOT / "tests" / "conf"
    forks: bool = True  # commands that can be forked, instead of starting an interpreter for each

    @classmethod
    def at(cls, folder: Path) -> Project:
        """That which `make_project` makes in `folder`."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
            "PYTHONPATH": forked_commands.SOURCES,
            # The tests' times do not matter, so they need not wait for other grids on this host.
            "RNNBENCH_TIMING_LOCK": str(folder / "timing.lock"),
        }
        return cls(folder, environment, folder / "own")

    def command(
        self, *arguments: str, experiment: str = "selftest", overrides: str = "", cores: int = 2
    ) -> list[str]:
        config = [f"experiment={experiment}", f"conf={self.conf}"]
        config += [f"overrides={overrides}"] if overrides else []
        return [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "workflow/Snakefile")),
            *("--cores", str(cores), *arguments, "--config", *config),
        ]

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*arguments, **options),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def snakemake(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        return self.run(self.command(*arguments, **options))

    def rnnbench(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.run([sys.executable, "-m", "rnnbench", *arguments])

    def run(self, command: list[str], seconds: float = 1200) -> subprocess.CompletedProcess:
        if self.forks and forked_commands.can_fork(command, self.environment):
            return forked_commands.run(command, self.folder, self.environment, seconds)
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=seconds,
        )  # fmt: skip

    def prepare(self) -> None:
        """Makes MLflow's store and the data of fake models, which take interpreters that are
        started, not forked, four CPU seconds."""
        store._create(self.folder / "mlflow.db")
        made = dataclasses.replace(self, forks=True).rnnbench("dataset", "digits")
        assert made.returncode == 0, made.stderr

    def records(self) -> list[Path]:
        return record_files(self.folder / "results")

    def rounds(self, experiment: str = "selftest") -> list[Path]:
        """The files of its finished rounds."""
        return sorted((self.folder / "results").glob(f"*/{experiment}/rounds/*.json"))

    def finished(self, experiment: str = "selftest") -> dict[str, Result]:
        """Run → its result in the file of its round."""
        (folder,) = (self.folder / "results").glob(f"*/{experiment}")
        results, faults = results_in(folder)
        assert not faults
        return results


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


# Of the user who measures `measured_small`; nothing that leaves the machine may name them.
SECRETS = {
    "USER": "alice_the_user",
    "LOGNAME": "alice_the_login",
    "SECRET_TOKEN": "a_value_of_the_environment",
}


@pytest.fixture(scope="session")
def measured_small(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose experiment ``small`` is measured once for all tests, which copy it."""
    shared = shared_folder(tmp_path_factory)
    project = Project.at(shared / "alices_secret_project")
    # A relative address is the same in each copy.
    project.environment |= {**SECRETS, "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    with locked(shared / "measured_small.lock"):
        if not project.records():
            make_project(project.folder)
            done = project.snakemake(experiment="small")
            assert done.returncode == 0, done.stdout + done.stderr
        assert len(project.records()) == 4
    return project


def shared_folder(temporary: pytest.TempPathFactory) -> Path:
    """A folder of all processes of this session of pytest."""
    own = temporary.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def small(measured_small: Project, tmp_path: Path) -> Project:
    """A copy of `measured_small`."""
    return copy_of(measured_small, tmp_path / "project")


def copy_of(project: Project, folder: Path) -> Project:
    shutil.copytree(project.folder, folder, symlinks=True, dirs_exist_ok=True)
    lock = {"RNNBENCH_TIMING_LOCK": str(folder / "timing.lock")}
    return Project(folder, project.environment | lock, folder / "own")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place for runs whose workers are killed soon after SIGTERM."""
    monkeypatch.setattr(members, "GRACE_SECONDS", 0.1)
    return Place(tmp_path, tmp_path / "results", "here", "selftest", tmp_path / "timing.lock")


@pytest.fixture(scope="module")
def browser():
    """A real Chromium; closing it closes its pages."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser found at {CHROMIUM}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


def make_project(folder: Path) -> Project:
    for name in ("conf", ".dvc"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("cache", "tmp", "*.local")
        )
    shutil.copy(ROOT / "data.dvc", folder)
    shutil.copytree(ROOT / "tests" / "conf", folder / "own")
    return Project.at(folder)


def kill_everything(process: subprocess.Popen) -> None:
    """Sends SIGKILL to the process and its process group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int, *, recursive: bool = True) -> dict[int, list[str]]:
    """The running descendants, or only the children, of a process: pid → command line."""
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=recursive):
            with contextlib.suppress(psutil.Error):  # it ended, or is a zombie
                found[process.pid] = process.cmdline()
    return found


def working_in(folder: Path) -> list[str]:
    """Command lines of rnnbench's processes with this working directory."""
    processes = psutil.process_iter(["pid", "cwd", "cmdline"])
    inside = [each.info for each in processes if each.info["cwd"] == str(folder)]
    commands = [" ".join(each["cmdline"] or ()) for each in inside if each["pid"] != os.getpid()]
    return [command for command in commands if "rnn" in command]


# A condition is waited for this many times as long as on a quiet machine: it may be slowed to a
# fifth, and stopped for seconds.
PATIENCE = 8


def wait_until(condition, seconds: float, what: str) -> None:
    """Fails unless the condition holds within `seconds` on a quiet machine."""
    deadline = time.monotonic() + PATIENCE * seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds} s")
        time.sleep(0.02)
