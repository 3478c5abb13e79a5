"""Charts that are drawn once: the pages of these tests have many in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import vl_convert


@pytest.fixture(autouse=True, scope="session")
def charts_drawn_once() -> Iterator[None]:
    """Drawing a chart takes up to 0.3 s of a processor, and the same chart is drawn in the same
    way."""
    draw = vl_convert.vegalite_to_svg
    drawn: dict[str, str] = {}

    def remembered(chart: Any) -> str:
        key = json.dumps(chart)
        if key not in drawn:
            drawn[key] = draw(chart)
        return drawn[key]

    with mock.patch.object(vl_convert, "vegalite_to_svg", remembered):
        yield
