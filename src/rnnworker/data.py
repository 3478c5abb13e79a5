"""Reads a dataset's bytes and prepares a model's arrays from them."""

import hashlib
import io
import os
import pickle
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy

from rnnworker import initializers, model_keys, trees, user_functions
from rnnworker.arguments import Refusal
from rnnworker.array_names import ARRAYS, WEIGHTS
from rnnworker.json_types import Config
from rnnworker.readers import images
from rnnworker.trees import Tree

CONVERT = "save its lists as an array of values and one of offsets, as docs/data.md describes"


def arrays(
    config: Config,
    path: Optional[str],
    pinned_md5: Optional[str] = None,
) -> Dict[str, Tree]:
    """Returns the arrays that the model trains on: ``x_train, y_train, x_val, y_val``, and its
    `WEIGHTS` if it has any, with samples along the first axis; each is a tree (see `trees`). Raises
    ValueError if ``prepare`` does not return all of them.

    **Arguments:**

    - `config`: the run's; ``model.data.prepare`` names a function of (source, config);
      ``model.train_samples`` and ``model.val_samples``, if given, limit the number of samples;
      ``model.class_weight`` makes the weights of the training's samples, as Keras's ``fit`` does.
    - `path`, `pinned_md5`: as in `source`.
    """
    model = config["model"]
    name_of_prepare = model["data"]["prepare"]
    prepare = user_functions.function(name_of_prepare)
    given = source(path, pinned_md5)
    with user_functions.as_program(name_of_prepare.rpartition(":")[0]):
        prepared = prepare(given, model_keys.recorded(config, "prepare"))
    _check(prepared, name_of_prepare)
    found: Dict[str, Tree] = {}
    for name in prepared:
        part = name.rpartition("_")[2]
        samples = model.get(part + "_samples")
        found[name] = trees.taken(prepared[name], slice(samples))
    if model.get("class_weight"):
        if WEIGHTS[0] in found:
            raise Refusal("class_weight and sample_weight_train are both given: remove one of them")
        found[WEIGHTS[0]] = weights_of_classes(found["y_train"], model["class_weight"])
    return found


def samples(arrays: Mapping[str, Tree], part: str) -> Tuple[Tree, ...]:
    """The samples of a `part`, ``train`` or ``val``, as Keras's steps take them: (x, y), or (x, y,
    weights)."""
    return tuple(_of_part(arrays, part).values())


def _of_part(arrays: Mapping[str, Tree], part: str) -> Dict[str, Tree]:
    names = ("x_" + part, "y_" + part, "sample_weight_" + part)
    return {name: arrays[name] for name in names if name in arrays}


def weights_of_classes(y: Tree, class_weight: Mapping[Any, float]) -> numpy.ndarray:
    """The weight of each sample by its class, a number or the place of the 1 in its row; 1 for a
    class that `class_weight` (class → weight) leaves out. Raises `Refusal` for targets that are no
    classes, and for a class that no sample has."""
    fault = "class_weight needs one class for each sample, in y_train: write sample_weight_train"
    if not isinstance(y, numpy.ndarray) or y.ndim > 2:
        raise Refusal(fault)
    classes: numpy.ndarray = y.reshape(len(y), -1)
    if classes.shape[1] > 1:
        is_0_or_1 = (classes == 0) | (classes == 1)
        has_one = classes.sum(1) == 1
        if not is_0_or_1.all() or not has_one.all():
            raise Refusal(fault)
        classes = classes.argmax(1)
    classes = classes.reshape(-1)
    if (classes != numpy.round(classes)).any():
        raise Refusal(fault)
    weights = numpy.ones(len(y), "float32")
    for name in class_weight:
        of_class = classes == int(name)
        if not of_class.any():
            raise Refusal("class_weight has the class {}, and no sample has it".format(name))
        weights[of_class] = class_weight[name]
    return weights


def _check(prepared: object, function: str) -> None:
    """Raises ValueError or `Refusal` if the arrays that `function` has prepared are not
    `ARRAYS`."""
    if isinstance(prepared, dict):
        missing = sorted(set(ARRAYS) - set(prepared))
        if missing:
            found = ", ".join(sorted(map(str, prepared))) or "nothing"
            message = "{} did not return {}, but {}"
            raise ValueError(message.format(function, ", ".join(missing), found))
    fault = _fault(prepared)
    if fault:
        raise Refusal("{} returns {}".format(function, fault))


def _fault(prepared: object) -> Optional[str]:
    """What is wrong with prepared arrays, none of which is missing; None if nothing is."""
    if not isinstance(prepared, dict):
        fault = "a {}: it must return a dict of {}"
        return fault.format(type(prepared).__name__, ", ".join(ARRAYS))
    known = ARRAYS + WEIGHTS
    further = sorted(set(prepared) - set(known))
    if further:
        fault = "{}, which rnnbench does not read: it must return {} only"
        return fault.format(", ".join(further), ", ".join(known))
    for name in prepared:
        if not trees.leaves(prepared[name]):
            return "no arrays in {}".format(name)
    same_names = [("x_train", "x_val"), ("y_train", "y_val")]
    for part in ("train", "val"):
        of_rows = _fault_of_rows(trees.named(_of_part(prepared, part)))
        if of_rows:
            return of_rows
        if prepared.get("sample_weight_" + part) is not None:
            same_names.append(("sample_weight_" + part, "y_" + part))
    for first, second in same_names:
        of_first = _names(prepared[first])
        of_second = _names(prepared[second])
        if of_first != of_second:
            fault = "other arrays in {} than in {}: {} and {}"
            return fault.format(first, second, of_first, of_second)
    return None


def _names(tree: Tree) -> str:
    """The names of the arrays in a tree, as text."""
    names = sorted(name for name, _ in trees.named(tree))
    return ", ".join(names) or "one array"


def _fault_of_rows(arrays: Sequence[Tuple[str, Any]]) -> Optional[str]:
    """What is wrong with `arrays`, each (name, array), of which each must have numbers of at least
    one sample, and all equally many samples."""
    first, of_first = arrays[0]
    for name, array in arrays:
        if not isinstance(array, numpy.ndarray):
            fault = "{} as a {}: it must be a NumPy array, or a dict, list or tuple of arrays"
            return fault.format(name, type(array).__name__)
        if array.dtype.kind not in "biuf":
            fault = "{} of the type {}: it must have numbers that are not complex"
            return fault.format(name, array.dtype)
        if array.ndim == 0 or len(array) == 0:
            return name + " without samples"
        if len(array) != len(of_first):
            fault = "{} samples in {} and {} in {}: each sample needs its target"
            return fault.format(len(of_first), first, len(array), name)
    return None


def source(
    path: Optional[str],
    pinned_md5: Optional[str] = None,
) -> Union[str, Dict[str, numpy.ndarray], None]:
    """Returns the content of the dataset's file: a dict of arrays for ``.npz`` and for the archive
    of CIFAR-10, else the absolute path; None if the model generates its data (`path` is None).

    Unpickling can execute arbitrary code. Therefore pickles are loaded only from a file whose MD5
    equals `pinned_md5`, the one pinned in ``data.dvc`` (None for a user-supplied file), computed on
    each call; otherwise raises ValueError."""
    if path is None:
        return None
    trusted = pinned_md5 is not None and md5(path) == pinned_md5
    if path.endswith(".npz"):
        return _npz(path, trusted)
    if path.endswith(".tar.gz"):
        if not trusted:
            raise ValueError("{} holds pickles and is not pinned in data.dvc".format(path))
        return images.unpickle_cifar10(path)
    return os.path.abspath(path)


def _npz(path: str, trusted: bool) -> Dict[str, numpy.ndarray]:
    with numpy.load(path, allow_pickle=trusted) as file:
        try:
            return {name: file[name] for name in file.files}
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            fault = "{} holds pickles (allow_pickle) and is not pinned in data.dvc: {}"
            raise ValueError(fault.format(path, CONVERT)) from None
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            fault = "{} holds pickles that NumPy {} cannot read ({}): {}"
            raise ValueError(fault.format(path, numpy.__version__, error, CONVERT)) from error


def md5(path: str) -> str:
    """The MD5 of a file, as hexadecimal digits."""
    state = hashlib.md5()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    return state.hexdigest()


def text(path: str) -> str:
    """A text file, UTF-8."""
    with io.open(path, encoding="utf-8") as file:
        return file.read()


def epoch_order(seed: int, epoch: int, samples: int) -> numpy.ndarray:
    """Returns the order of the samples in an epoch, the same for every implementation and
    framework. ``RandomState`` is used because its stream is frozen across NumPy versions."""
    seed = (seed * 100003 + epoch) % 2**32
    order = numpy.random.RandomState(seed).permutation(samples)
    return order.astype("int64")


def epoch_images(images: Tree, config: Config, epoch: int) -> Tree:
    """Returns the training images of an epoch, augmented by ``model.data.augment``, a function of
    (images, stream, config); `images` unchanged if the model has none. The result depends only on
    seed and epoch, so that every implementation and framework sees the same images."""
    augment = config["model"]["data"].get("augment")
    if augment is None:
        return images
    if isinstance(images, (dict, tuple)):
        raise Refusal("{} augments one array, and the model has several inputs".format(augment))
    change = user_functions.function(augment)
    stream = initializers.stream(config["seed"], epoch, "augment")
    return change(images, stream, model_keys.recorded(config, "augment"))
