"""Reads the checkpoints of TensorFlow and torch with the framework that wrote them.

The arrays of a checkpoint are named by their numbers in the answer's ``names``. ``order`` is
``arrays`` if the names are in the order of the model's layers and their weights, else ``none``.
``optimizer`` is the number of arrays that belong to no layer.
"""

import glob
import os
import re

import numpy

from rnnworker import trees

ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# A layer may be in a scope called training or optimizer: the names of Keras's classes decide, and
# the keys of objects.
OPTIMIZER = re.compile(
    r"(training(_\d+)?/)?(Adam|Adadelta|Adagrad|Adamax|Ftrl|Nadam|RMSprop|SGD)/"
    r"|(optimizer|keras_api)/.*\.ATTRIBUTES/"
    r"|.*(beta[12]_power|global_step|save_counter)(/\.ATTRIBUTES.*)?$|.*/\.OPTIMIZER_SLOT/"
)
# Keys under which a file of torch may have its state_dict beside other things.
STATE_DICTS = ("state_dict", "model_state_dict", "model")


class Refusal(Exception):
    """What cannot be done, and its remedy."""


def words(error):
    """The message of an error of a framework, on one line."""
    return " ".join(str(error).split())[:500]


def tensorflow(path):
    """Reads a checkpoint of ``tf.train.Saver``, of Keras or a SavedModel."""
    try:
        import tensorflow as tf
    except ImportError:
        raise Refusal("has no TensorFlow to read this checkpoint.", "--build tf_2_21.") from None
    prefix = _prefix_of(path, tf)
    try:
        reader = tf.train.load_checkpoint(prefix)
    except Exception as error:
        raise Refusal(words(error), "name a complete checkpoint of TensorFlow.") from error
    shapes = reader.get_variable_to_shape_map()
    types = reader.get_variable_to_dtype_map()
    keys = {key for key in shapes if types[key].is_numpy_compatible and types[key] != tf.string}
    claimed = 0
    for key in keys:
        count = int(numpy.prod(shapes[key]))
        claimed += count * types[key].size
    size = 0
    files = glob.glob(glob.escape(prefix) + ".data-*")
    for file in files or [prefix]:  # one file, of Saver's first version
        size += os.path.getsize(file)
    if claimed > size:
        what = "its arrays should have {:,} bytes, but its files have only {:,}."
        raise Refusal(what.format(claimed, size), "use the complete checkpoint.")

    if OBJECT_GRAPH in shapes:
        named, order = _of_objects(reader.get_tensor(OBJECT_GRAPH))
    else:
        named, order = _of_graph(prefix + ".meta", keys)
    of_model = keys - _of_optimizer(keys, named, shapes)
    ordered = [key for key in named if key in of_model]
    if set(ordered) != of_model:
        ordered = sorted(of_model)
        order = "none"
    names = [named.get(key, key) for key in ordered]
    names = [name.replace(ATTRIBUTE, "") for name in names]
    if len(set(names)) < len(names):
        names = [key.replace(ATTRIBUTE, "") for key in ordered]
    arrays = {}
    try:
        for number, key in enumerate(ordered):
            arrays[str(number)] = reader.get_tensor(key)
    except Exception as error:
        raise Refusal(words(error), "use a checkpoint that is not damaged.") from error
    return {
        "names": names,
        "order": order,
        "optimizer": len(keys) - len(of_model),
        "arrays": arrays,
    }


def _prefix_of(path, tf):
    """What the names of the files of a checkpoint begin with. `path`: one of them, or a folder."""
    if not os.path.isdir(path):
        return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)
    if os.path.exists(os.path.join(path, "saved_model.pb")):
        return os.path.join(path, "variables", "variables")
    return tf.train.latest_checkpoint(path) or path


def _of_optimizer(keys, named, shapes):
    """The keys of an optimizer's arrays. `named`: names by key; `shapes`: of all keys."""
    found = set()
    for key in keys:
        # The slots of an optimizer of TensorFlow 1 are named after their variable, and have its
        # shape.
        variable = key.rpartition("/")[0]
        is_slot = shapes[key] == shapes.get(variable)
        if is_slot or OPTIMIZER.match(key) or OPTIMIZER.match(named.get(key, key)):
            found.add(key)
    return found


def _of_graph(meta, keys):
    """Names by key, in the order of creation, if there is the file with the graph."""
    if not os.path.exists(meta):
        return {key: key for key in sorted(keys)}, "none"
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    graph = meta_graph_pb2.MetaGraphDef()
    with open(meta, "rb") as file:
        graph.ParseFromString(file.read())
    named = {}
    for text in graph.collection_def["variables"].bytes_list.value:
        variable = variable_pb2.VariableDef()
        variable.ParseFromString(text)
        name = variable.variable_name.partition(":")[0]
        named[name] = name
    return named, "arrays"


def _of_objects(text):
    """Names by key, in the order of the model's layers, if each has one set of arrays."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(text)
    named = {}
    seen = set()

    def visit(number):
        if number in seen:
            return
        seen.add(number)
        node = graph.nodes[number]
        for attribute in node.attributes:
            named[attribute.checkpoint_key] = attribute.full_name or attribute.checkpoint_key
        for child in node.children:
            visit(child.node_id)

    layers = {}
    for child in graph.nodes[0].children:
        match = re.match(r"layer_with_weights-(\d+)$", child.local_name)
        if match:
            number = int(match.group(1))
            layers[number] = child.node_id
    order = "arrays" if layers else "none"
    for number in sorted(layers):
        before = set(named)
        visit(layers[number])
        scopes = set()
        for key in set(named) - before:
            scope = named[key].rpartition("/")[0]
            scope = re.sub(r"/(forward|backward)_[^/]*", "", scope)
            scope = re.sub(r"/[^/]*_cell(_\d+)?$", "", scope)
            scopes.add(scope)
        if len(scopes) > 1:
            order = "none"
    visit(0)
    return named, order


def torch(path):
    """Reads a ``state_dict`` of torch with its restricted unpickler, which runs no code."""
    try:
        import torch as framework
    except ImportError:
        raise Refusal("has no torch to read this file.", "--build keras3_torch.") from None
    saving = "torch.save(model.state_dict(), FILE)."
    try:
        loaded = framework.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        what = words(error)
        if "weights_only" in what:  # torch advises to run the code in the file
            what = (
                "does not open it: it has more than arrays, such as a whole module, or is damaged."
            )
        raise Refusal(what, saving) from error
    if not isinstance(loaded, dict):
        what = "finds a {} in it, not a state_dict.".format(type(loaded).__name__)
        raise Refusal(what, saving)
    kept = _of_model(loaded, framework.Tensor)
    found = {}
    of_model = []
    for key, tree in loaded.items():
        for name, value in trees.named(tree, str(key)):
            if not isinstance(value, framework.Tensor):
                continue
            found[name] = value
            if key in kept:
                of_model.append(name)
    names = of_model
    if len(kept) == 1 and kept[0] in STATE_DICTS and isinstance(loaded[kept[0]], dict):
        names = [name.partition(".")[2] for name in of_model]
    arrays = {}
    for number, name in enumerate(of_model):
        try:
            arrays[str(number)] = found[name].detach().numpy()
        except (TypeError, RuntimeError) as error:
            kind = str(getattr(found[name], "dtype", "unknown")).replace("torch.", "")
            what = "{} has the type {}, which NumPy lacks ({})."
            remedy = "save it as float32: value.float() of each value of the state_dict."
            raise Refusal(what.format(name, kind, words(error)), remedy) from error
    return {
        "names": names,
        "order": "none",
        "optimizer": len(found) - len(of_model),
        "arrays": arrays,
    }


def _of_model(loaded, tensor):
    """The keys of a file of torch under which there are arrays of the model, and not the state of a
    training.

    `loaded`: what is in the file; `tensor`: torch's class of arrays. Beside a state_dict under one
    of `STATE_DICTS`, only other state_dicts are the model's, such as averaged weights: Lightning
    also has the state of optimizers, loops and callbacks, with arrays in them.
    """
    main = [key for key in STATE_DICTS if isinstance(loaded.get(key), dict)]
    kept = []
    for key, value in loaded.items():
        is_state = isinstance(value, dict) and bool(value)
        is_state = is_state and all(isinstance(each, tensor) for each in value.values())
        if (key in main[:1] or not main or is_state) and not _has_optimizer(value):
            kept.append(key)
    return kept


def _has_optimizer(tree):
    """Whether the state of an optimizer of torch is in a tree."""
    if isinstance(tree, (list, tuple)):
        return any(_has_optimizer(each) for each in tree)
    if not isinstance(tree, dict):
        return False
    return "param_groups" in tree or any(_has_optimizer(each) for each in tree.values())
