"""The keys of the choices in ``conf/``, with their types; the JSON schemas of ``conf/schemas`` are
made from them. A model of one's own may have further keys, which its code reads; the further keys
of rnnbench's models are those of `ShippedModel`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, inspect

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError, suggestion
from rnnbench.grid.explained import explained, types_at
from rnnbench.grid.overrides import ABSENT, lookup, replaced
from rnnworker.attest import KERNELS
from rnnworker.cards import replicas_of
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import IMPLEMENTATIONS, is_function, is_user_file
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

# Name → the settings specific to it, as Keras 3 names them. Source: ``keras/src/optimizers``.
OPTIMIZERS: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "nesterov"),
    "rmsprop": ("rho", "momentum", "epsilon", "centered"),
    "adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "adamw": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "adamax": ("beta_1", "beta_2", "epsilon"),
    "nadam": ("beta_1", "beta_2", "epsilon"),
    "adagrad": ("initial_accumulator_value", "epsilon"),
    "adadelta": ("rho", "epsilon"),
    "lion": ("beta_1", "beta_2"),
}
LearningRate = Annotated[float, Meta(gt=0, examples=["0.001"])] | UnsetType
COMMON_SETTINGS = (
    *("decay", "weight_decay", "clipnorm", "clipvalue", "global_clipnorm"),
    *("use_ema", "ema_momentum", "ema_overwrite_frequency"),
)
# Source: ``keras/src/losses/__init__.py`` of Keras 3, then what only ``keras/losses.py`` of Keras 2
# has, and the abbreviations in upper case, which both accept.
LOSSES = (
    *("kl_divergence", "poisson", "binary_crossentropy", "binary_focal_crossentropy"),
    *("categorical_crossentropy", "categorical_focal_crossentropy"),
    *("sparse_categorical_crossentropy", "mean_squared_error", "mean_absolute_error"),
    *("mean_absolute_percentage_error", "mean_squared_logarithmic_error", "cosine_similarity"),
    *("log_cosh", "huber", "hinge", "squared_hinge", "categorical_hinge", "dice", "tversky"),
    *("circle", "ctc", "bce", "kld", "mae", "mse", "mape", "msle"),
    *("logcosh", "kullback_leibler_divergence", "cosine_proximity", "cosine"),
    *("KLD", "MAE", "MSE", "MAPE", "MSLE"),
)
# Of ``keras/src/metrics/__init__.py``, functions and the classes that need no arguments.
METRICS = (
    *("accuracy", "acc", "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy"),
    *("top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy", "AUC", "Accuracy"),
    *("BinaryAccuracy", "BinaryIoU", "CategoricalAccuracy", "ConcordanceCorrelation"),
    *("CosineSimilarity", "F1Score", "FBetaScore", "FalseNegatives", "FalsePositives"),
    *("KLDivergence", "LogCoshError", "MeanAbsoluteError", "MeanAbsolutePercentageError"),
    *("MeanSquaredError", "MeanSquaredLogarithmicError", "PearsonCorrelation", "Precision"),
    *("R2Score", "Recall", "RootMeanSquaredError", "SparseCategoricalAccuracy"),
    *("SparseTopKCategoricalAccuracy", "TopKCategoricalAccuracy", "TrueNegatives"),
    *("TruePositives", *LOSSES),
)
_OPTIMIZERS = tuple(
    msgspec.defstruct(
        name.capitalize(),
        [
            ("learning_rate", LearningRate, UNSET),
            *((setting, float | bool | UnsetType, UNSET) for setting in settings),
            *((setting, float | bool | None, None) for setting in COMMON_SETTINGS),
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
    arrays: Annotated[
        list[str] | None,
        Meta(
            description="the arrays that prepare reads from the .npz file of a data set of yours; "
            "absent: x_train, y_train, x_val, y_val; null: prepare reads the file itself"
        ),
    ] = None
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
    train_samples: Annotated[
        Positive | None, Meta(description="number of training samples, from the first; null: all")
    ] = None
    val_samples: Positive | None = None


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
    layers: Count = UNSET
    bidirectional: bool | UnsetType = UNSET
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

    activation: Text = None
    recurrent_activation: Text = None
    use_bias: bool = True
    implementation: Literal[0, 1, 2] = 0
    op: Literal["CudnnRNNV2", "CudnnRNNV3"] = "CudnnRNNV2"
    class_: Text = msgspec.field(name="class", default=None)


SetOptions = Annotated[
    Options | None, Meta(description="each option is set by +rnn.options.NAME=VALUE")
]


class ShippedRnn(Rnn, kw_only=True):
    """A choice with one of rnnbench's implementations."""

    options: SetOptions = None  # type: ignore[assignment]


class Fake(Struct, forbid_unknown_fields=True):
    """The keys of ``rnn.fake``; see ``rnnworker.frameworks.fake``."""

    import_seconds: float = 0.0
    build_seconds: float = 0.0
    first_step_seconds: float = 0.0
    step_seconds: float = 0.0
    epoch_seconds: float = 0.0
    epoch_steps: Positive = 1
    validation_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    predict_seconds: float = 0.0
    samples: Positive = 1
    spread: float = 0.0
    accuracy: float = 0.0
    fault: Text = None
    fault_epoch: Positive = 1


class FakeRnn(Rnn, kw_only=True):
    fake: Fake | UnsetType = UNSET


_Peaks = msgspec.defstruct(
    "_Peaks",
    [(name, Annotated[float, Meta(gt=0, le=1e6)] | UnsetType, UNSET) for name in TOLERANCE],
    forbid_unknown_fields=True,
)


class Device(Choice, kw_only=True):
    kind: Literal["cpu", "gpu"]
    threads: Positive | None = None
    gpu: Text = None
    feed: Literal["host", "device"] = "host"
    turns: bool | None = None
    replicas: Positive | None = None
    peak_tflops: Annotated[
        _Peaks | None,  # type: ignore[valid-type]
        Meta(
            description="TFLOP/s from the datasheet by precision; the report divides by them",
            examples=["{float32: 19.5, tf32: 156}"],
        ),
    ] = None


class Build(Choice, kw_only=True):
    framework: Literal[tuple(FRAMEWORKS)]  # type: ignore[valid-type]
    python: str | float | None = None
    lock: Text = None
    wheel: Text = None
    command: Text = None
    environment: dict[str, str | int | float | bool | None] | None = None
    jit_compile: bool | None = None
    as_published: bool | None = None


class Dataset(Choice, kw_only=True):
    path: Annotated[Text, Meta(description="null if the model makes its own data")]
    file: Text = None
    title: Text = None
    url: Text = None
    replaces: Text = None


class Measure(Struct, kw_only=True, forbid_unknown_fields=True):
    warmup_steps: NotNegative
    warmup_seconds: Annotated[float, Meta(ge=0)] = 0.0
    evaluate_calls: NotNegative
    predict_calls: NotNegative
    uncertified: bool = False
    turns: bool = True


class Limits(Struct, rename={"import_": "import"}, forbid_unknown_fields=True):
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


class Config(Struct, kw_only=True, forbid_unknown_fields=True):
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
def _config_of(model: type[Model], rnn: type[Rnn]) -> type[Config]:
    fields = [("model", model), ("rnn", rnn)]
    kind: Any = msgspec.defstruct(
        "Config", fields, bases=(Config,), kw_only=True, forbid_unknown_fields=True
    )
    return kind  # type: ignore[no-any-return]


def kind_of(config: Mapping[str, Any]) -> type[Config]:
    """The types of the keys of `config`, by the model's functions and the implementation."""
    implementation = lookup(config, "rnn.implementation")
    rnn: type[Rnn] = FakeRnn if implementation == "fake" else ShippedRnn
    if is_user_file(implementation):
        rnn = Rnn
    return _config_of(ShippedModel if is_shipped(config["model"]) else Model, rnn)


def is_shipped(model: Mapping[str, Any]) -> bool:
    """Whether all functions of the section `model` are rnnbench's own."""
    data = model.get("data")
    functions = [model.get("function"), *(data.values() if isinstance(data, dict) else ())]
    return all(str(each).startswith("rnnworker.") for each in functions if each is not None)


def types_of(config: Mapping[str, Any], key: str) -> list[Any]:
    """The types of `msgspec.inspect` that the value of a dotted `key` may have; none if nothing is
    known about the key."""
    path, kind = key.split("."), inspect.type_info(kind_of(config))
    for end in range(len(path), 0, -1):
        found = [each for each, _ in types_at(kind, path[:end], config)]
        if end == len(path) or any(isinstance(each, inspect.AnyType) for each in found):
            return found
    return []


def schemas() -> dict[str, str]:
    """Name of a file in ``conf/schemas`` → the JSON schema of such a choice."""
    kinds = {"model.json": Model, "rnn.json": Rnn}
    return {name: json.dumps(msgspec.json.schema(kind)) + "\n" for name, kind in kinds.items()}


def write_schemas(folder: Path) -> None:
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


AXES_WITHOUT_TYPES = set(NAMES) - set(Config.__struct_fields__)


def check_config(
    config: Mapping[str, Any],
    source_of: Callable[[str], str],
    written: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises a `ConfigError` for the first key of a grid point's `config` that is unknown, missing
    or of another type. `source_of`: maps a key to the file or grid that sets it; `written`: the
    keys that overrides set, each with its prefix."""
    _check_misspelt(config["model"], source_of)
    kind = kind_of(config)
    typed = _in_types(config)
    known = {key: value for key, value in typed.items() if key not in AXES_WITHOUT_TYPES}
    try:
        msgspec.convert(known, kind)
    except msgspec.ValidationError as error:
        raise explained(str(error), kind, config, source_of, written) from None
    _check_training(config["model"], source_of, written)
    if config["device"].get("feed") == "device" and replicas_of(config["device"]) > 1:
        raise ConfigError(
            "device.feed is 'device', which is for a single device; device.replicas is "
            f"{config['device']['replicas']}.",
            where=source_of("device.feed"),
            remedy=f"write {written.get('device.feed', 'device.feed')}=host.",
        )


def _check_misspelt(model: Mapping[str, Any], source_of: Callable[[str], str]) -> None:
    """Raises a `ConfigError` for an unknown key that resembles a known key that is absent."""
    absent = set(Model.__struct_fields__) - model.keys()
    for key in model.keys() - set(Model.__struct_fields__):
        if similar := suggestion(str(key), absent, 0.8):
            what = f"model has the key {key}, which rnnbench does not read."
            remedy = f"{similar}If the key is yours, give it another name."
            raise ConfigError(what, where=source_of(f"model.{key}"), remedy=remedy)


def _check_training(
    model: Mapping[str, Any], source_of: Callable[[str], str], written: Mapping[str, str]
) -> None:
    """Raises a `ConfigError` if a model states one of loss and optimizer without the other, or
    weights of what is not a class."""
    for name in model.get("class_weight") or ():
        if not name.isdecimal():
            what = f"model.class_weight has the class {name}; classes are numbers from 0."
            key = "class_weight: "
            if "model.class_weight" in written:
                key = f"{written['model.class_weight']}="
            raise ConfigError(
                what,
                where=source_of("model.class_weight"),
                remedy=f"write {key}{{0: 1.0, 1: 4.0}}.",
            )
    stated = [key for key in ("loss", "optimizer") if model.get(key) is not None]
    if len(stated) == 1:
        missing = "optimizer" if stated == ["loss"] else "loss"
        example = {"optimizer": "{name: adam, learning_rate: 0.001}", "loss": "mse"}[missing]
        remedy = (
            f"add {missing}: {example} to its file, or leave both out if build compiles the model."
        )
        if f"model.{missing}" in written:
            remedy = (
                f"remove the override of model.{missing}; loss and optimizer are both null only if "
                "build compiles the model."
            )
        raise ConfigError(
            f"model has no {missing}.", where=source_of(f"model.{missing}"), remedy=remedy
        )


def _in_types(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """`config` without what its types cannot say: Keras accepts the name of an optimizer in any
    case, and `files.check_own_code` checks a loss that is a function."""
    name = lookup(config, "model.optimizer.name")
    if name is not ABSENT:
        config = replaced(config, ["model", "optimizer", "name"], str(name).lower())
    if is_function(config["model"].get("loss")):
        config = replaced(config, ["model", "loss"], None)
    return config
