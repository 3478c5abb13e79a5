"""The keys of the choices in ``conf/``, with their types; the JSON schemas of ``conf/schemas`` are
made from them. A model and rnnbench's own rnn choices may have further keys, which their code
reads."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta, Struct, inspect

from rnnbench.errors import ConfigError, suggestion
from rnnbench.grid.overrides import ABSENT, lookup, replaced
from rnnworker.attest import KERNELS
from rnnworker.cards import replicas_of
from rnnworker.options import IMPLEMENTATIONS, is_user_file
from rnnworker.precision import TOLERANCE

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Text = str | None
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
LearningRate = Annotated[float, Meta(gt=0, examples=["0.001"])] | None
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
            ("learning_rate", LearningRate, None),
            *((setting, float | bool | None, None) for setting in (*COMMON_SETTINGS, *settings)),
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


class Data(Struct):
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
    batch: Annotated[Positive | None, Meta(description="samples per step")]
    epochs: Positive | None
    optimizer: Annotated[
        Union[_OPTIMIZERS],  # type: ignore[valid-type]  # noqa: UP007
        Meta(
            description="an optimizer of Keras with its settings; with decay, as in Keras 2, the "
            "learning rate of step t is learning_rate / (1 + decay t)",
            examples=["{name: adam, learning_rate: 0.001}"],
        ),
    ]
    loss: Annotated[
        Literal[LOSSES],  # type: ignore[valid-type]
        Meta(description="the name of a Keras loss, such as sparse_categorical_crossentropy"),
    ]
    recurrent: Annotated[
        bool, Meta(description="true if the model calls recurrent, else false, with rnn=none")
    ]
    arrays: Annotated[
        list[str] | None,
        Meta(
            description="the arrays that prepare reads from the .npz file of a data set of yours; "
            "absent: x_train, y_train, x_val, y_val; null: prepare reads the file itself"
        ),
    ] = None
    metrics: list[Literal[METRICS]] | None = None  # type: ignore[valid-type]
    units: Positive | None = None
    train_samples: Annotated[
        Positive | None, Meta(description="number of training samples, from the first; null: all")
    ] = None
    val_samples: Positive | None = None


class Rnn(Choice, kw_only=True, forbid_unknown_fields=False):
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


class OwnRnn(Rnn, kw_only=True, forbid_unknown_fields=True):
    """A user-supplied kernel's choice, whose further keys nothing would read."""


_Peaks = msgspec.defstruct(
    "_Peaks",
    [
        (name, Annotated[float, Meta(gt=0, le=1e6)] | msgspec.UnsetType, msgspec.UNSET)
        for name in TOLERANCE
    ],
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
    framework: str
    python: str | float | None = None
    lock: Text = None
    wheel: Text = None
    command: Any = None
    environment: Any = None
    jit_compile: bool | None = None
    as_published: bool | None = None


class Dataset(Choice, kw_only=True):
    path: Annotated[Text, Meta(description="null if the model makes its own data")]
    file: Text = None
    title: Text = None
    url: Text = None
    replaces: Text = None


class Measure(Struct, forbid_unknown_fields=True):
    warmup_steps: NotNegative | None = None
    warmup_seconds: Annotated[float, Meta(ge=0)] = 0.0
    evaluate_calls: NotNegative | None = None
    predict_calls: NotNegative | None = None
    uncertified: bool | None = None
    turns: bool | None = None


class Limits(Struct, rename={"import_": "import"}):
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


class Config(Struct, kw_only=True):
    model: Model
    rnn: Rnn
    device: Device
    build: Build
    dataset: Dataset
    measure: Measure
    limits: Limits | None = None
    precision: Literal[tuple(TOLERANCE)] | None = None  # type: ignore[valid-type]


class OwnConfig(Config, kw_only=True):
    rnn: OwnRnn


def schemas() -> dict[str, str]:
    """Name of a file in ``conf/schemas`` → the JSON schema of such a choice."""
    kinds = {"model.json": Model, "rnn.json": Rnn}
    return {name: json.dumps(msgspec.json.schema(kind)) + "\n" for name, kind in kinds.items()}


def write_schemas(folder: Path) -> None:
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


def check_config(config: Mapping[str, Any], source_of: Callable[[str], str]) -> None:
    """Raises a `ConfigError` for the first key of a grid point's `config` that is unknown, missing
    or of another type. `source_of`: maps a key to the file or grid that sets it."""
    _check_misspelt(config["model"], source_of)
    kind = OwnConfig if is_user_file(config["rnn"].get("implementation")) else Config
    try:
        msgspec.convert(_with_lower_case_optimizer(config), kind)
    except msgspec.ValidationError as error:
        raise explained(str(error), kind, config, source_of) from None
    if config["device"].get("feed") == "device" and replicas_of(config["device"]) > 1:
        raise ConfigError(
            "device.feed is 'device', which is for a single device; device.replicas is "
            f"{config['device']['replicas']}.",
            where=source_of("device.feed"),
            remedy="write device.feed=host.",
        )


def _check_misspelt(model: Mapping[str, Any], source_of: Callable[[str], str]) -> None:
    """Raises a `ConfigError` for an unknown key that resembles a known key that is absent."""
    absent = set(Model.__struct_fields__) - model.keys()
    for key in model.keys() - set(Model.__struct_fields__):
        if similar := suggestion(str(key), absent, 0.8):
            what = f"model has the key {key}, which rnnbench does not read."
            remedy = f"{similar}If the key is yours, give it another name."
            raise ConfigError(what, where=source_of(f"model.{key}"), remedy=remedy)


def _with_lower_case_optimizer(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keras accepts the name of an optimizer in any case."""
    key = "model.optimizer.name"
    name = lookup(config, key)
    return config if name is ABSENT else replaced(config, key.split("."), str(name).lower())


_WORDS = {
    "int": "an integer", "float": "a number", "str": "a string", "bool": "true or false",
    "array": "a list", "object": "a mapping",
}  # fmt: skip


def explained(
    message: str, struct: Any, config: Any, source_of: Callable[[str], str]
) -> ConfigError:
    """The error for a `message` of msgspec about a value in `config`, which is no `struct`."""
    kind = inspect.type_info(struct)
    text, _, location = message.partition(" - at `$")
    path = re.findall(r"\w+|\.\.\.", location)
    # The keys before the first position in a list, or the first key that msgspec does not name.
    names = list(itertools.takewhile(str.isidentifier, path))
    at = ".".join(names)
    value: Any = config
    for part in path:
        in_list = isinstance(value, list) and part.isdigit()
        value = value[int(part)] if in_list else lookup(value, part)
    detail = "".join(re.findall("[`'](.*)['`]", text.partition(", got")[0]))
    inner = f"{at}.{detail}"
    if text.startswith("Object contains unknown field"):
        known = []
        for each, _ in _at(kind, path, config):
            known += [field.encode_name for field in getattr(each, "fields", ())]
        whose = f"{at}={value['name']}" if names == path and "name" in value else at
        return ConfigError(
            f"unknown key {detail!r} in {whose}.",
            where=source_of(inner),
            remedy=f"{suggestion(detail, known)}the keys are {', '.join(known)}.",
        )
    if text.startswith("Object missing required field"):
        abouts = [about for _, about in _at(kind, [*path, detail], config) if about]
        said = [(each.get("description"), *each.get("examples", ())) for each in abouts[:1]]
        meaning = "".join(f" ({'; such as '.join(filter(None, each))})" for each in said)
        return ConfigError(
            f"{at} has no {detail}.",
            where=source_of(inner),
            remedy=f"add {detail}{meaning} to its file, or write +{inner}=VALUE."
            if names == path
            else f"add {detail}{meaning} to each entry.",
        )
    found = _at(kind, path, config)
    about = {name: item for _, each in found for name, item in each.items()}
    known = [str(each) for kind, _ in found for each in getattr(kind, "values", ())]
    # A name that is no tag: the types beside it have the valid ones.
    tagged = _at(kind, path[:-1], None) if text.startswith("Invalid value") else ()
    known += [each.tag for each, _ in tagged]
    expected = text.removeprefix("Expected ").partition(", got")[0].partition(" matching")[0]
    expected = re.sub("`(.*?)`", lambda match: _words(match[1]), expected).replace(">=", "≥")
    expected = expected.removesuffix(".0")
    remedy = f"write {expected}"
    if known:
        expected = f"one of {', '.join(known)}"
        remedy = suggestion(detail, known).strip() or "write one of these"
    elif "examples" in about:
        remedy = f"write {names[-1]}: {about['examples'][0]}"
        expected = expected.replace("a string", f"like {about['examples'][0]}")
    elif minimum := re.search(r"(?:integer|number) ≥ (.+)", expected):
        remedy = f"write {minimum[1]} or more"
    remedy += f" ({about['description']})" if "description" in about else ""
    remedy += "" if remedy.endswith("?") else "."
    verb = "is" if names == path else "has the value"
    what = f"{at or 'the file'} {verb} {detail if value is ABSENT else value!r}"
    return ConfigError(f"{what}; it must be {expected}.", where=source_of(at), remedy=remedy)


def _words(names: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | "))


def _at(kind: Any, path: Sequence[str], data: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The types of `msgspec.inspect` that may stand at `path`, each with what is said about it. Of
    structs with tags, only the one with the tag in `data`."""
    tag_field = getattr(kind, "tag_field", None)
    if tag_field and isinstance(data, dict) and data.get(tag_field) != kind.tag:
        return []
    if isinstance(kind, inspect.Metadata):
        about = {} if path else kind.extra_json_schema or {}
        return [(each, about | inner) for each, inner in _at(kind.type, path, data)]
    if isinstance(kind, inspect.UnionType):
        return [found for each in kind.types for found in _at(each, path, data)]
    if not path:
        return [(kind, {})]
    inside = data.get(path[0]) if isinstance(data, dict) else None
    if items := getattr(kind, "item_type", None) or getattr(kind, "value_type", None):
        return _at(items, path[1:], inside)
    fields = [field for field in getattr(kind, "fields", ()) if field.encode_name == path[0]]
    return [found for field in fields for found in _at(field.type, path[1:], inside)]
