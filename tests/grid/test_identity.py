from __future__ import annotations

import json
import re
from typing import Any

from rnnbench.grid.identity import Identifier, canonical, digest_of, identity_of

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


def test_shared_sections_do_not_change_identities() -> None:
    identify = Identifier()
    model = {
        "units": 64,
        "about": "x",
        "rates": {"b": 0.1, "a": [1, {"d": 2, "c": 3}]},
        "name": "größer",
    }
    shared = {**CONFIG, "model": model}
    configs = [
        CONFIG,
        *({**shared, "seed": seed} for seed in range(3)),
        {**shared, "model": {**model, "units": 65}},
        {**shared, "precision": "float32"},
        {**shared, "precision": "tf32"},
    ]
    identified = [identify(config, "md5", "lock", "worker") for config in configs]
    for config, (content, digest) in zip(configs, identified, strict=True):
        whole = identity(config)
        assert content == {key: value for key, value in whole.items() if key != "config"}
        assert digest == digest_of(whole) == digest_of(json.loads(json.dumps(whole)))
    assert len({digest for _, digest in identified}) == len(configs) - 1  # float32 is the default
