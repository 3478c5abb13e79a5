from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Project, make_project
from tests.exchange.bundles import bundle


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Path]:
    """A project, and a bundle of its four runs, in two rounds."""
    project = make_project(tmp_path_factory.mktemp("home"))
    return project, bundle(project, "small", tmp_path_factory.mktemp("away") / "bundle")
