"""Parts of the worker's sessions that need no framework."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy
import pytest

from rnnworker import frameworks, optimizers
from rnnworker.frameworks import keras206_tensorflow1, replicas
from rnnworker.frameworks.keras2_tensorflow1 import fixed_shuffle_orders
from rnnworker.frameworks.keras3_torch import onednn_version as onednn_of_torch
from rnnworker.frameworks.tensorflow_facts import captured_stderr, onednn_on, onednn_version
from rnnworker.frameworks.tensorflow_facts import unused_instructions as unused


@pytest.mark.parametrize(
    ("sizes", "message"), [([4], "something else"), ([3, 3], "something else"), ([], "never")]
)
def test_an_unexpected_or_missing_shuffle_is_an_error(sizes: list[int], message: str) -> None:
    orders, original = [numpy.arange(3)], numpy.random.shuffle
    with pytest.raises(RuntimeError, match=message), fixed_shuffle_orders(orders):
        for size in sizes:
            numpy.random.shuffle(numpy.arange(size))
    assert numpy.random.shuffle is original


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("this TensorFlow binary was not compiled to use: AVX512F FMA\n", ["AVX512F", "FMA"]),
        (
            "The TensorFlow library wasn't compiled to use SSE4.1 instructions, but these are\n"
            "The TensorFlow library wasn't compiled to use AVX instructions, but these are",
            ["AVX", "SSE4.1"],
        ),
        (
            "To enable the following instructions: AVX2 AVX512_VNNI, in other operations, rebuild",
            ["AVX2", "AVX512_VNNI"],
        ),
        ("an unrelated message", []),
    ],
)
def test_instructions_that_a_binary_does_not_use(output: str, expected: list[str]) -> None:
    assert unused(output) == expected


def test_output_of_c_code_is_captured_and_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with captured_stderr() as output:
        os.write(2, b"from C\n")
    assert output == ["from C\n"]
    assert capfd.readouterr().err == "from C\n"


def test_onednn_and_its_version(tmp_path) -> None:
    assert onednn_on("port.cc:153] oneDNN custom operations are on. You may see") is True
    assert onednn_on("") is None
    assert onednn_of_torch("built with:\n  - Intel(R) MKL-DNN v3.12.0 (Git Hash 8)\n") == "3.12.0"
    assert onednn_of_torch("built with:\n  - GCC 13.3") is None
    assert onednn_version(None) is None and onednn_version(str(tmp_path)) is None
    header = tmp_path / "external/onednn/include/oneapi/dnnl/dnnl_version.h"
    header.parent.mkdir(parents=True)
    parts = (("MAJOR", 3), ("MINOR", 2), ("PATCH", 1))
    header.write_text("".join(f"/// x\n#define DNNL_VERSION_{name} {n}\n" for name, n in parts))
    assert onednn_version(str(tmp_path)) == "3.2.1"


def test_an_unknown_optimizer_is_an_error() -> None:
    keras = SimpleNamespace(optimizers=SimpleNamespace())
    with pytest.raises(ValueError, match="no optimizer 'adma'"):
        optimizers.for_keras_3(keras, {"name": "adma"})


def test_keras_2_has_lr_and_decay() -> None:
    stated = {"name": "adam", "learning_rate": 0.001, "decay": 1e-5, "epsilon": 1e-8}
    before, made = dict(stated), {"lr": 0.001, "decay": 1e-5, "epsilon": 1e-8}
    assert optimizers.for_keras_2(stated) == ("adam", made)
    assert stated == before
    assert optimizers.for_keras_2({"name": "adam"}) == ("adam", {"epsilon": 1e-7})
    assert optimizers.for_keras_2({"name": "sgd"}) == ("sgd", {})


@pytest.mark.parametrize("as_published", [False, True])
def test_keras_2_0_6_orders_the_steps_of_a_model_that_compiles_itself(as_published: bool) -> None:
    given = SimpleNamespace(get_gradients=len, get_updates=len)
    session = keras206_tensorflow1.Session.__new__(keras206_tensorflow1.Session)
    session.config = {"build": {"as_published": as_published}, "model": {"function": "mine.py:f"}}
    session.model = None
    session.tensorflow = None
    session.keras = SimpleNamespace(
        optimizers=SimpleNamespace(get={"adam": given}.get), backend=SimpleNamespace(update_add=len)
    )
    session._watched = SimpleNamespace(compiled=lambda model: ({"optimizer": "adam"}, None))
    session._compile_arguments()
    assert (given.get_gradients is len, given.get_updates is len) == (as_published, as_published)


def test_each_replica_gets_an_equal_part_of_each_batch() -> None:
    parts = replicas.parts_of([numpy.arange(10), numpy.arange(10, 20)], 4, 2)
    expected = [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9], [10, 11], [12, 13]]
    assert [list(part) for part in parts][:8] == expected


def test_an_uneven_last_batch_is_an_error_that_names_the_fix() -> None:
    with pytest.raises(ValueError, match="equal division"):
        replicas.parts_of([numpy.arange(11)], 4, 2)
    replicas.check_sizes({"train": 44, "val": 20}, 16, 2)
    with pytest.raises(ValueError, match=r"a batch of 5 samples of val .* model.val_samples \(now"):
        replicas.check_sizes({"train": 44, "val": 21}, 16, 2)


def test_a_framework_without_replicas_is_refused() -> None:
    config = {"build": {"framework": "keras3_torch"}, "device": {"kind": "cpu", "replicas": 2}}
    with pytest.raises(ValueError, match="keras3_torch trains on one device"):
        frameworks.open_session(config, 1)
