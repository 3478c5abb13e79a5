from __future__ import annotations

import re
from typing import Any

from rnnbench.grid.point import canonical, digest_of, identity_of

CONFIG: dict[str, Any] = {
    "seed": 0,
    "model": {"units": 64, "about": "x", "source": "y", "data": {"source": "kept"}},
    "rnn": {"name": "keras", "requires": []},
    "limits": {"import": 300},
}


def identity(config: dict[str, Any]) -> dict[str, Any]:
    return identity_of(config, "md5", "lock", "worker")


def test_documentation_and_limits_do_not_count() -> None:
    assert identity(CONFIG)["config"] == {
        "model": {"data": {"source": "kept"}, "units": 64},
        "rnn": {"name": "keras"},
        "seed": 0,
    }
    other = {**CONFIG, "limits": {}, "rnn": {"name": "keras", "about": "other"}}
    assert digest_of(identity(other)) == digest_of(identity(CONFIG))


def test_everything_else_counts() -> None:
    digests = {
        digest_of(identity(CONFIG)),
        digest_of(identity({**CONFIG, "seed": 1})),
        digest_of(identity_of(CONFIG, "other", "lock", "worker")),
        digest_of(identity_of(CONFIG, "md5", "other", "worker")),
        digest_of(identity_of(CONFIG, "md5", "lock", "other")),
    }
    assert len(digests) == 5
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_the_order_of_keys_does_not_matter() -> None:
    backwards = dict(reversed(CONFIG.items()))
    assert digest_of(identity(backwards)) == digest_of(identity(CONFIG))
    assert canonical({"b": 1, "a": [0.1]}) == '{"a":[0.1],"b":1}'


def test_the_default_precision_does_not_count() -> None:
    digests = [
        digest_of(identity({**CONFIG, **more}))
        for more in ({}, {"precision": "float32"}, {"precision": "tf32"})
    ]
    assert digests[0] == digests[1] != digests[2]
