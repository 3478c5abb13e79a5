"""The keys of the choices in ``conf/``, with their types; the JSON schemas of ``conf/schemas`` are
made from them. A default is what the absence of a key means; UNSET if that differs from each value
or is not known. A model of one's own may have further keys, which its code reads; the further keys
of rnnbench's models are those of `ShippedModel`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, inspect

from rnnbench.grid.keras_names import COMMON_SETTINGS, LOSSES, METRICS, OPTIMIZERS
from rnnbench.grid.overrides import ABSENT, Config, lookup
from rnnbench.grid.values import alternatives
from rnnserve import IMPLEMENTATIONS as RUNTIME_IMPLEMENTATIONS
from rnnworker.attest import KERNELS
from rnnworker.frameworks.fake import DEFAULTS
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import IMPLEMENTATIONS, is_user_file
from rnnworker.precision import TOLERANCE

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]
Text = str | None
# Optional, but not null.
Count = Positive | UnsetType
Share = Fraction | UnsetType
Function = Annotated[
    str, Meta(pattern=r"^(.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*$", examples=["mine.py:NAME"])
]
# A list for all cases, or a mapping of frameworks, kinds of device or cells to such lists.
Names = Annotated[list[Literal[KERNELS]], Meta(min_length=1)] | None  # type: ignore[valid-type]
Kernels = Names | dict[str, Names | dict[str, Names | dict[str, Names]]]

LearningRate = Annotated[float, Meta(gt=0, examples=["0.001"])] | UnsetType
_OPTIMIZERS = tuple(
    msgspec.defstruct(
        name.capitalize(),
        [
            ("learning_rate", LearningRate, UNSET),
            *((setting, float | bool | UnsetType, UNSET) for setting in settings),
            *((setting, float | bool | None | UnsetType, UNSET) for setting in COMMON_SETTINGS),
        ],
        tag_field="name",
        tag=name,
        forbid_unknown_fields=True,
    )
    for name, settings in OPTIMIZERS.items()
)


class Requirement(Struct, forbid_unknown_fields=True):
    """A requirement of a choice on the rest of the config; see ``requirements``."""

    key: str
    values: list[Any] = msgspec.field(name="in")
    why: str
    when: dict[str, list[Any]] | None = None


class Choice(Struct, kw_only=True, forbid_unknown_fields=True):
    """The keys that a choice of any axis may have."""

    defaults: Annotated[list[Any], Meta(description="Hydra's defaults list: what it extends.")] = []
    name: Text = None
    about: Text = None
    source: Annotated[Text, Meta(description="Where the values come from.")] = None
    requires: Annotated[
        list[Requirement] | None,
        Meta(
            description="requirements on the rest of the config",
            examples=['[{key: device.kind, in: [gpu], why: "the reason"}]'],
        ),
    ] = None


class Data(Struct, forbid_unknown_fields=True):
    prepare: Annotated[
        Function,
        Meta(description="prepare(source, config) returns x_train, y_train, x_val, y_val by name"),
    ]
    augment: Annotated[
        Function | None, Meta(description="augment(x, stream, config) augments a batch of images")
    ] = None


class Model(Choice, kw_only=True, forbid_unknown_fields=False):
    """A model for rnnbench: conf/model/NAME.yaml or a user-supplied file."""

    function: Annotated[
        Function,
        Meta(description="build(keras, recurrent, config) in mine.py, relative to this file"),
    ]
    data: Annotated[Data, Meta(examples=["{prepare: mine.py:prepare}"])]
    batch: Annotated[Positive, Meta(description="samples per step")]
    epochs: Positive
    recurrent: Annotated[
        bool, Meta(description="true if the model calls recurrent, else false, with rnn=none")
    ]
    optimizer: (
        Annotated[
            Union[_OPTIMIZERS],  # type: ignore[valid-type]  # noqa: UP007
            Meta(
                description="an optimizer of Keras with its settings; with decay, as in Keras 2, "
                "the learning rate of step t is learning_rate / (1 + decay t). Absent, with loss, "
                "if build compiles the model",
                examples=["{name: adam, learning_rate: 0.001}"],
            ),
        ]
        | None
    ) = None
    loss: (
        Annotated[
            Literal[LOSSES],  # type: ignore[valid-type]
            Meta(
                description="the name of a Keras loss, such as sparse_categorical_crossentropy, or "
                "FILE.py:FUNCTION, a function of (y_true, y_pred)"
            ),
        ]
        | None
    ) = None
    arrays: (
        Annotated[
            list[str] | None,
            Meta(
                description="the arrays that prepare reads from the .npz file of a data set of "
                "yours; absent: x_train, y_train, x_val, y_val; null: prepare reads the file itself"
            ),
        ]
        | UnsetType
    ) = UNSET
    class_weight: Annotated[
        dict[str, Weight] | None,
        Meta(
            description="class → weight of its samples in the training, as in Keras's fit; a class "
            "that is not named has the weight 1",
            examples=["{0: 1.0, 1: 4.0}"],
        ),
    ] = None
    metrics: list[Literal[METRICS]] | UnsetType = UNSET  # type: ignore[valid-type]
    units: Count = UNSET
    train_samples: (
        Annotated[
            Positive | None,
            Meta(description="number of training samples, from the first; null: all"),
        ]
        | UnsetType
    ) = UNSET
    val_samples: Positive | UnsetType | None = UNSET


class ShippedModel(Model, kw_only=True, forbid_unknown_fields=True):
    """A model with functions of ``rnnworker.models`` alone: every key that one of them reads."""

    file: str | UnsetType = UNSET
    md5: str | UnsetType = UNSET
    sequence: Count = UNSET
    features: Count = UNSET
    words: Count = UNSET
    bigrams: NotNegative | UnsetType = UNSET
    embedding: Count = UNSET
    characters: Count = UNSET
    step: Count = UNSET
    held_out: Share = UNSET
    layers: Positive = 1
    bidirectional: bool = False
    dense: Count = UNSET
    dropout: Fraction | list[Fraction] | UnsetType = UNSET
    input_dropout: Share = UNSET
    recurrent_dropout: Share = UNSET
    shift: Share = UNSET
    padding: Literal["none", "right", "left"] | UnsetType = UNSET
    data_seed: Annotated[int, Meta(ge=0, lt=2**32)] | UnsetType = UNSET


class Rnn(Choice, kw_only=True):
    """A recurrent implementation: conf/rnn/NAME.yaml or a user-supplied file."""

    implementation: Annotated[
        str,
        Meta(
            description="mine.py, a Python file in the same folder (docs/own_kernel.md), or one of "
            + ", ".join(IMPLEMENTATIONS)
        ),
    ]
    kernels: Annotated[
        Kernels,
        Meta(
            description="what an executed step must contain; null for any kernel",
            examples=["[cudnn]"],
        ),
    ] = None
    cells: Annotated[
        Annotated[list[str], Meta(min_length=1)] | None,
        Meta(description="the cells that it supports; null for every cell", examples=["[lstm]"]),
    ] = None
    options: Annotated[
        dict[str, Any] | None,
        Meta(
            description="the options that it honours, which a grid sets as rnn.options.NAME",
            examples=["{NAME: DEFAULT}"],
        ),
    ] = None


class Options(Struct, kw_only=True):
    """Types of the options of rnnbench's implementations. Names are checked by `check_options`."""

    activation: Text | UnsetType = UNSET
    recurrent_activation: Text | UnsetType = UNSET
    use_bias: bool | UnsetType = UNSET
    implementation: Literal[0, 1, 2] | UnsetType = UNSET
    op: Literal["CudnnRNNV2", "CudnnRNNV3"] | UnsetType = UNSET
    class_: Text | UnsetType = msgspec.field(name="class", default=UNSET)


SetOptions = Annotated[
    Options | None, Meta(description="each option is set by +rnn.options.NAME=VALUE")
]


class ShippedRnn(Rnn, kw_only=True):
    """A choice with one of rnnbench's implementations."""

    options: SetOptions = None  # type: ignore[assignment]


# The keys of ``rnn.fake``; see ``rnnworker.frameworks.fake``.
_TYPES = {float: float, int: Positive, NoneType: Text}
_Fake = msgspec.defstruct(
    "_Fake",
    [(name, _TYPES[type(value)] | UnsetType, UNSET) for name, value in DEFAULTS.items()],
    forbid_unknown_fields=True,
)


class FakeRnn(Rnn, kw_only=True):
    """A choice without a framework, for tests. `fake`: what its worker pretends, such as the
    seconds of its phases."""

    fake: _Fake | UnsetType = UNSET  # type: ignore[valid-type]


class RuntimeChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A runtime: conf/runtime/NAME.yaml or a user-supplied file."""

    name: str
    defaults: Annotated[list[Any], Meta(description="Hydra's defaults list: what it extends.")] = []
    about: Text = None
    source: Text = None
    implementation: Annotated[
        str,
        Meta(
            description="mine.py, a Python file in the same folder (docs/runtimes.md), or one of "
            + ", ".join(RUNTIME_IMPLEMENTATIONS)
        ),
    ]
    options: Annotated[
        dict[str, Any],
        Meta(description="what its export and load are called with", examples=["{xnnpack: false}"]),
    ] = {}


_Peaks = msgspec.defstruct(
    "_Peaks",
    [(name, Annotated[float, Meta(gt=0, le=1e6)] | UnsetType, UNSET) for name in TOLERANCE],
    forbid_unknown_fields=True,
)


class Device(Choice, kw_only=True):
    """Where a run trains: conf/device/NAME.yaml.

    - `threads`: of the framework, and cores that the run is pinned to; None: all that it may use on
      a CPU, and at most 8 near the card on a GPU.
    - `gpu`: the model of the GPU, or None for any; nothing reads it on a CPU.
    - `feed`: whether the arrays stay in the memory of the device, or each batch is copied to it.
    - `turns`: whether runs on a GPU take turns; nothing reads it on a CPU.
    - `replicas`: the number of devices that train together, each on a part of the batch.
    - `peak_tflops`: precision → TFLOP/s.
    """

    kind: Literal["cpu", "gpu"]
    threads: Positive | None = None
    gpu: Text = None
    feed: Literal["host", "device"] = "host"
    turns: bool | None = None
    replicas: Positive = 1
    peak_tflops: Annotated[
        _Peaks | None,  # type: ignore[valid-type]
        Meta(
            description="TFLOP/s from the datasheet by precision; the report divides by them",
            examples=["{float32: 19.5, tf32: 156}"],
        ),
    ] = None


class Build(Choice, kw_only=True):
    """Which packages a run uses: conf/build/NAME.yaml.

    - `framework`: one of `rnnworker.frameworks.names.FRAMEWORKS`.
    - `python`: with `lock`, the version of its Python; else a path, a name on PATH or a version;
      None: the Python that runs rnnbench.
    - `lock`: the name of a lock file in ``workflow/envs/``; None: the environment of `python`.
    - `wheel`: the path of a wheel that replaces a locked package.
    - `command`: a command line that ends in a Python.
    - `environment`: variable → value; None: not set.
    - `jit_compile`: whether XLA compiles the training step.
    - `as_published`: whether Keras 2.0.6 may apply other gradients than it computes.
    """

    framework: Literal[tuple(FRAMEWORKS)]  # type: ignore[valid-type]
    python: str | float | None = None
    lock: Text = None
    wheel: Text = None
    command: Text = None
    environment: dict[str, str | int | float | bool | None] | None = None
    jit_compile: bool = False
    as_published: bool = False


class Dataset(Choice, kw_only=True):
    """What a model trains on: conf/dataset/NAME.yaml.

    - `path`: of the file, relative to the project.
    - `file`: its name where it is published; None: that of `path`.
    - `title`: for the report.
    - `url`: where the file is published; None: nowhere.
    - `replaces`: the only data set in whose place the command line puts this one.
    """

    path: Annotated[Text, Meta(description="null if the model makes its own data")]
    file: Text = None
    title: Text = None
    url: Text = None
    replaces: Text = None


class Measure(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a run is measured.

    - `warmup_steps`, `warmup_seconds`: the least number and duration of the untimed steps between
      the first step and the timed epochs.
    - `evaluate_calls`, `predict_calls`: number of timed calls, after one that is not timed.
    - `uncertified`: whether it is trained although its implementation was found wrong.
    - `turns`: whether it trains in turns with the runs that it is compared with.
    """

    warmup_steps: NotNegative
    warmup_seconds: Annotated[float, Meta(ge=0)] = 0.0
    evaluate_calls: NotNegative
    predict_calls: NotNegative
    uncertified: bool = False
    turns: bool = True


class Limits(Struct, rename={"import_": "import"}, forbid_unknown_fields=True):
    """The seconds that each phase of a run may take, and further limits.

    - `members`: the largest number of runs that take turns; None: as many as memory allows.
    - `memory_bytes`: of the worker; None: no limit.
    """

    import_: Seconds
    data: Seconds
    build: Seconds
    first_step: Seconds
    warmup: Seconds
    train: Seconds
    evaluate: Seconds
    predict: Seconds
    members: Positive | None = None
    memory_bytes: Annotated[int, Meta(ge=2**27)] | None = None


class TypedConfig(Struct, kw_only=True, forbid_unknown_fields=True):
    """The config of a grid point."""

    model: Model
    cell: Choice
    rnn: Rnn
    device: Device
    build: Build
    dataset: Dataset
    measure: Measure
    limits: Limits
    precision: Literal[tuple(TOLERANCE)]  # type: ignore[valid-type]
    seed: NotNegative
    repeat: NotNegative
    alias: Text = None


@cache
def _config_of(model: type[Model], rnn: type[Rnn]) -> type[TypedConfig]:
    kind: Any = msgspec.defstruct(
        "TypedConfig",
        [("model", model), ("rnn", rnn)],
        bases=(TypedConfig,),
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return kind  # type: ignore[no-any-return]


def kind_of(config: Config) -> type[TypedConfig]:
    """The types of the keys of `config`, by the model's functions and the implementation."""
    model = ShippedModel if is_shipped(config["model"]) else Model
    implementation = lookup(config, "rnn.implementation")
    rnn: type[Rnn] = ShippedRnn
    if is_user_file(implementation):
        rnn = Rnn
    elif implementation == "fake":
        rnn = FakeRnn
    return _config_of(model, rnn)


# `msgspec` builds the description of all structs anew at each call, which takes some 30 ms.
_described = cache(inspect.type_info)


def is_shipped(model: Config) -> bool:
    """Whether all functions of the section `model` are rnnbench's own."""
    functions = [model.get("function")]
    data = model.get("data")
    if isinstance(data, dict):
        functions += data.values()
    return all(str(each).startswith("rnnworker.") for each in functions if each is not None)


def types_of(config: Config, key: str) -> list[Any]:
    """The types of `msgspec.inspect` that the value of a dotted `key` may have; none if nothing is
    known about the key."""
    types, _ = alternatives(_described(kind_of(config)))
    section: Any = config
    for name in key.split("."):
        if any(isinstance(each, inspect.AnyType) for each in types):
            return types
        inside = []
        for each in types:
            if isinstance(each, inspect.DictType):
                inside.append(each.value_type)
            elif isinstance(each, inspect.ListType):
                inside.append(each.item_type)
            elif isinstance(each, inspect.StructType):
                inside += [field.type for field in each.fields if field.encode_name == name]

        section = lookup(section, name)
        types = []
        for kind in inside:
            for each in alternatives(kind)[0]:
                # Of structs with tags, only the one with the tag of the section.
                tag_field = getattr(each, "tag_field", None)
                if tag_field is None or lookup(section, tag_field) in (ABSENT, each.tag):
                    types.append(each)

    return types


def schemas() -> dict[str, str]:
    """Name of a file in ``conf/schemas`` → the JSON schema of such a choice."""
    kinds = {"model.json": Model, "rnn.json": Rnn, "runtime.json": RuntimeChoice}
    return {name: json.dumps(msgspec.json.schema(kind)) + "\n" for name, kind in kinds.items()}


def write_schemas(folder: Path) -> None:
    """Writes the `schemas` to `folder`, for ``make schemas``."""
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")
