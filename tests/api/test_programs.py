"""The API where people use it: README's lines in a notebook, and a test of a project's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT

pytestmark = pytest.mark.slow_tier("a framework and a notebook")
MODEL = """
def build():
    model = keras.Sequential(
        [keras.layers.Input((12, 4)), LSTM(UNITS), layers.Dense(2, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
"""
CELLS = [
    "import keras\nimport numpy as np\nfrom keras import layers\nfrom keras.layers import LSTM\n"
    "UNITS = 8",
    MODEL,
    "x = np.random.default_rng(0).normal(size=(200, 12, 4)).astype('float32')\n"
    "y = (x.sum((1, 2)) > 0).astype('int64')",
]
CHECKS = """
import math, sys
ratio = result.ratio("block")
assert ratio.low < ratio.value < ratio.high, ratio
assert result.certificate, result.certificate.text
assert sorted(result.implementations) == ["block", "keras"] and len(result.frame()) == 2
assert result.page.is_file() and result.fastest in ("block", "keras", None)
assert not {"snakemake"} & set(sys.modules)
again = rnnbench.compare(build, (x, y), budget=5)
assert again.ratio("block") == ratio, "nothing was measured again"
assert rnnbench.load(result.page.parent.name).ratio("block") == ratio
"""


def lines_of(page: str, containing: str) -> str:
    """The block of Python on a page that contains a text."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    (block,) = (each for each in blocks if containing in each)
    return block


def environment(folder: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
        "PYTHONPATH": str(ROOT / "src"),
        "RNNBENCH_TIMING_LOCK": str(folder / "timing.lock"),
        "IPYTHONDIR": str(folder / "ipython"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def test_the_lines_of_the_readme_run_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder below a project; with a function, a class, a constant and imports of cells."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "Snakefile").write_text("")
    lines = lines_of("README.md", "import rnnbench").strip().splitlines()
    assert len(lines) == 4, "the first screen promises four lines"
    shorter = "\n".join(lines).replace("budget=60", "budget=5")
    assert "budget=5)" in shorter
    book = nbformat.v4.new_notebook()
    refused = "try:\n    rnnbench.compare(lambda: 1, (x, y))\nexcept rnnbench.RnnbenchError as e:\n"
    refused += "    print(e)"
    for cell in [*CELLS, shorter, "result", CHECKS, refused]:
        book.cells.append(nbformat.v4.new_code_cell(cell))
    (tmp_path / "notebooks").mkdir()
    client = NotebookClient(
        book, timeout=900, resources={"metadata": {"path": str(tmp_path / "notebooks")}}
    )
    client.execute()

    *_, shown, _, error = book.cells
    html = shown.outputs[0]["data"]["text/html"]
    assert "<code>block</code>" in html or "Keras&#39;s own layer" in html, html
    assert "2 implementations compute the same function" in html
    assert "is not a function that `def` made. Fix: " in error.outputs[0]["text"]
    told = "".join(output.get("text", "") for output in book.cells[3].outputs)
    assert "[1/3]" in told and "2 implementations compute the same function" in told
    (source,) = tmp_path.glob("results/compare/functions/*/build.py")
    assert "UNITS = 8" in source.read_text()


def test_the_test_on_the_page_runs_in_pytest(tmp_path: Path) -> None:
    """In a folder that is no project; it fails if the speed-up is not shown. One process of pytest
    runs both, because importing Keras takes seven seconds of a processor."""
    text = lines_of("docs/python.md", "def test_")
    asked = 'project="speed"'
    assert asked in text
    imports = "import keras\nfrom keras import layers\nfrom keras.layers import LSTM\nUNITS = 8\n"
    (tmp_path / "mine.py").write_text(imports + MODEL)
    x = numpy.random.default_rng(0).normal(size=(200, 12, 4)).astype("float32")
    y = (x.sum((1, 2)) > 0).astype("int64")
    numpy.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_val=x, y_val=y)
    for name, low in (("shown", "0.001"), ("not_shown", "1000")):
        shorter = text.replace("> 1.2", f"> {low}").replace(asked, f"{asked}, budget=5")
        (tmp_path / f"test_{name}.py").write_text(shorter)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rpf"),
            *("test_shown.py", "test_not_shown.py"),
        ],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
    assert "PASSED test_shown.py::" in done.stdout, done.stdout
    assert "1.2" in text and "assert" in done.stdout and "Speedup(name='block'" in done.stdout
    assert (tmp_path / "speed/Snakefile").is_file()
