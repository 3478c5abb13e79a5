"""The documentation names commands, options, experiments and files that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import jsonschema
import numpy
import pytest
import yaml

from rnnbench.commands import MODULES
from rnnbench.commands.arguments import DEFAULT_EXPERIMENT
from rnnbench.errors import ConfigError
from rnnbench.grid.choices import Build, Choice, Data, Device, Measure, Model, Rnn
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import KEYS, load_experiment
from rnnbench.grid.files import files_of
from rnnbench.workflow.job import SCHEMA, load
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))
from reference_hook import help_of

PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
PAGES += [ROOT / "benchmarks" / "README.md", ROOT / "config" / "README.md"]
PAGES += [ROOT / "reports" / "README.md", ROOT / "reports" / "gpu.md"]
PAGES += [ROOT / "reports" / "published" / "README.md", ROOT / "tests" / "faults" / "README.md"]
# Names that stand for a name of the reader's own.
PLACEHOLDERS = {"NAME", "EXPERIMENT", "mine"}


def in_code(pattern: str) -> list[tuple[str, ...]]:
    """Page and groups of each match of `pattern` in the code of the pages, blocks and spans."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        for code in [*blocks, *spans]:
            name = page.relative_to(ROOT).as_posix()
            found += [(name, *match.groups()) for match in re.finditer(pattern, code, re.M)]
    return found


def test_commands_and_their_options_exist() -> None:
    uses = in_code(r"(?:^|; do |; |&& )rnnbench ([a-z]+)([^#;\n]*)")
    assert len(uses) > 30
    for page, command, rest in uses:
        assert command in MODULES, f"{page}: rnnbench {command}"
        for option in re.findall(r"(?<!\S)--[a-z-]+", rest.partition(" -- ")[0]):
            assert option in help_of(command), f"{page}: rnnbench {command} {option}"


def test_experiments_exist() -> None:
    names = {name for _, name in in_code(r"^rnnbench (?:run|plan|bundle|report) (\w+)")}
    names |= {name for _, name in in_code(r"experiment=(\w+)")}
    known = set(files_of([ROOT / "conf"], "experiment"))
    assert "quick" in names and names - PLACEHOLDERS <= known


def example_commands() -> list[tuple[str, str, list[str]]]:
    """Page, experiment and overrides of each command of `rnnbench` and Snakemake in the pages that
    has overrides, but for files of the reader's own."""
    found = []
    for page, name, rest in in_code(r"\brnnbench (?:run|plan|grid|bundle) (\w+)([^#;`\n]*)"):
        overrides = re.findall(r"(?<!\S)[+~]*[a-z_.]+=\S+", rest)
        found.append((page, name, overrides))
    for page, name, quoted in in_code(r'--config experiment=(\w+) overrides="([^"]+)"'):
        found.append((page, name, quoted.split()))
    return [
        (page, name, overrides)
        for page, name, overrides in found
        if overrides and name not in PLACEHOLDERS and not re.search("/home/me|NAME", str(overrides))
    ]


def test_experiments_with_overrides_expand() -> None:
    """Whether the configuration of the examples is accepted; nothing runs."""
    folders = [ROOT / "conf"]
    commands = example_commands()
    assert len(commands) >= 5
    for page, name, overrides in commands:
        # A loop of the shell over two builds.
        overrides = [each.replace("${b}", "torch") for each in overrides]
        points = expand(load_experiment(name, folders), folders, overrides)
        assert points, f"{page}: {name} {overrides}"


def test_benchmarks_and_their_options_exist() -> None:
    """In the first lines of each script, and in the headings of their README."""
    scripts = {path.stem: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
    for name, text in scripts.items():
        lines = re.findall(r"^ +\.venv/bin/python benchmarks/(\w+)\.py(.*)$", text, re.M)
        for named, usage in lines:
            assert named == name
            for option in re.findall(r"--[a-z-]+", usage):
                known = f'"{option}"' in text or (option == "--small" and "add_small(" in text)
                assert known, f"{name}: {option}"
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    for name in re.findall(r"`(\w+)\.py`", readme):
        assert name in scripts or list((ROOT / "src").rglob(f"{name}.py")), name
    with_usage = {name for name, text in scripts.items() if ".venv/bin/python benchmarks/" in text}
    headings = " ".join(re.findall(r"^#+ .*$", readme, re.M))
    assert {name for name in with_usage if f"`{name}.py`" not in headings} == set()


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    named = {name for _, name in in_code(r"^make ([a-z-]+)")}
    assert {"run", "test", "docs"} <= named <= set(targets)


def test_files_exist() -> None:
    tops = "conf|src|tests|docs|workflow|reports|benchmarks|config|findings"
    named = set(in_code(rf"^((?:{tops})/[\w./-]+)$"))
    assert len(named) > 10
    made = ("reports/quick", "reports/index.html", "docs/NAME")
    for page, path in named:
        if not path.startswith(made) and "NAME" not in path and "EXPERIMENT" not in path:
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_each_known_difference_has_a_source() -> None:
    """A script of `findings/` or a test; each script is a row of both lists."""
    page = (ROOT / "docs" / "known_differences.md").read_text()
    rows = re.findall(r"^\| (?!you move|---)(.*) \|$", page, re.M)
    sources = [re.fullmatch(r"`((?:findings|tests)/[\w/.]+)`", row.split(" | ")[3]) for row in rows]
    assert len(rows) > 15 and all(sources), [row for row in rows if "findings/" not in row]
    named = [source[1] for source in sources if source]
    assert [name for name in named if not (ROOT / name).is_file()] == []
    scripts = {path.name for path in (ROOT / "findings").glob("*.sh")}
    assert {Path(name).name for name in named if name.startswith("findings/")} == scripts
    readme = (ROOT / "findings" / "README.md").read_text()
    assert set(re.findall(r"^\|.*\((\w+\.sh)\) \|$", readme, re.M)) == scripts


def test_the_keys_of_an_experiment_are_all_described() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    table = page.partition("## Keys of an experiment")[2].partition("##")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= set(KEYS)


def test_the_keys_of_config_are_those_of_the_schema() -> None:
    schema = yaml.safe_load(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    table = (ROOT / "config/README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(schema["properties"])
    assert schema["properties"]["experiment"]["default"] == DEFAULT_EXPERIMENT
    with pytest.raises(ConfigError, match=r"no key 'cores'.* use experiment, overrides"):
        load({"cores": 2}, ROOT)


def test_the_general_settings_are_all_described() -> None:
    config = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text())
    page = (ROOT / "docs" / "configuration.md").read_text()
    measure = {f"measure.{key}" for key in config["measure"]}
    for key in {*config, *measure} - {"defaults", "measure", "limits"}:
        assert f"`{key}`" in page, key


def test_the_keys_of_choices_are_all_described() -> None:
    """Those that all choices have are described together; those of an rnn choice in own_kernel."""
    page = (ROOT / "docs" / "configuration.md").read_text()
    for section, kind in (
        ("model", Model), ("model.data", Data), ("device", Device), ("build", Build),
        ("measure", Measure),
    ):  # fmt: skip
        own = set(kind.__struct_fields__) - {*Choice.__struct_fields__, "data"}
        for key in own:
            assert f"`{section}.{key}`" in page, f"{section}.{key}"
    own_kernel = (ROOT / "docs" / "own_kernel.md").read_text()
    for key in set(Rnn.__struct_fields__) - set(Choice.__struct_fields__):
        assert f"| `{key}` |" in own_kernel, f"rnn.{key}"


def test_the_environment_variables_are_all_described() -> None:
    """But for those that rnnbench sets itself."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "workflow").rglob("*.py")]
    read = set(re.findall(r"RNNBENCH_[A-Z_]+", "".join(file.read_text() for file in files)))
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    own = {"RNNBENCH_IMPORTERS", "RNNBENCH_LOG"}
    assert sorted(name for name in read - own if f"`{name}`" not in pages) == []


@pytest.mark.parametrize("page", ["README.md", "docs/experiments.md"])
def test_the_example_of_an_experiment_expands(tmp_path: Path, page: str) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.S)
    text = next(block for block in blocks if "grids:" in block)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    folders = [ROOT / "conf", tmp_path]
    points = expand(load_experiment("mine", folders), folders)
    assert len(points) == 2 * 2 * 2 * 5


@pytest.mark.parametrize(
    ("name", "written", "cell"),
    [("mine.py", "mine.py:build", "of_model"), ("other.py", "other.yaml", "lstm")],
)
def test_the_examples_of_models_are_accepted(
    tmp_path: Path, name: str, written: str, cell: str
) -> None:
    page = (ROOT / "docs" / "models.md").read_text()
    ordinary, with_prepare = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "mine.py").write_text(ordinary)
    (tmp_path / "other.py").write_text(with_prepare)
    (tmp_path / "other.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    numpy.savez(tmp_path / "mine.npz", x_train=[0])
    folders = [ROOT / "conf"]
    overrides = [f"model={tmp_path}/{written}", "dataset=file", "repeat=0"]
    overrides += [f"dataset.path={tmp_path}/mine.npz"]
    points = expand(load_experiment("quick", folders), folders, overrides)
    assert {point.config["model"]["batch"] for point in points} == {32}
    assert {point.config["model"]["function"] for point in points} == {f"{tmp_path}/{name}:build"}
    assert {point.config["cell"]["name"] for point in points} == {cell}


def test_the_tests_that_notice_what_dropped_ones_did_exist() -> None:
    text = (ROOT / "tests/dropped.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)(?:::(test_\w+))?`", text))
    assert len(named) > 40
    for module, test in named:
        (file,) = [
            file
            for folder in ("tests", "packages")
            for file in (ROOT / folder).rglob(f"{module}.py")
        ]
        assert not test or f"\ndef {test}(" in file.read_text(), f"{module}::{test}"
