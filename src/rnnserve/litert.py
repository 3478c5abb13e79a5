"""LiteRT with a fixed batch and length. The options: ``xnnpack``, whether it computes on XNNPACK;
``precision``: ``int8`` (weights, and inputs of products in each call) or ``float16`` (weights)."""

import shutil

from rnnserve import keras_models
from rnnserve.refusals import Refused, first_words, of_precision

FIXED_SHAPES = True
FILE = "model.tflite"
PRECISIONS = ("float32", "float16", "int8")
LINES = """\
# once: from rnnserve import litert; litert.export(model, arrays, folderPRECISION), for this shape
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter("model.tflite", num_threads=HOW_MANY)
serve = interpreter.get_signature_runner("serve")
named = dict(zip(sorted(serve.get_input_details()), arrays))  # arrays: in the model's order
outputs = serve(**named)
"""
RESOLVER = """,
    experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)"""


def CODE(xnnpack=True, precision="float32"):
    option = "" if precision == "float32" else f", precision={precision!r}"
    lines = LINES.replace("PRECISION", option)
    if xnnpack:
        return lines
    lines = lines.replace("import Interpreter\n", "import Interpreter, OpResolverType\n")
    return lines.replace("=HOW_MANY)", f"=HOW_MANY{RESOLVER}")


def export(model, arrays, folder, precision="float32"):
    """A SavedModel of the variables and one function, then TensorFlow's converter: without a fixed
    batch its loops become operators that no interpreter of LiteRT has. (Keras's own archive traces
    more: three halves of the CPU time.)"""
    import keras
    import tensorflow

    if precision not in PRECISIONS:
        raise of_precision("LiteRT's converter", precision, PRECISIONS)
    keras_models.reset_states(model)

    def serve(*tensors):
        outputs = keras.tree.flatten(model(keras_models.packed(model, tensors), training=False))
        named = {}
        for number, output in enumerate(outputs):
            named[f"output_{number}"] = output
        return named

    signature = keras_models.specifications(model, arrays, is_fixed=True)
    module = tensorflow.Module()
    variables = model.variables + keras_models.states_of(model)
    module.variables_of_model = [variable.value for variable in variables]
    module.serve = tensorflow.function(serve, input_signature=signature)
    path = folder / "saved_model"
    try:
        tensorflow.saved_model.save(module, str(path), signatures={"serve": module.serve})
        converter = tensorflow.lite.TFLiteConverter.from_saved_model(
            str(path), signature_keys=["serve"]
        )
        if precision != "float32":
            converter.optimizations = [tensorflow.lite.Optimize.DEFAULT]
        if precision == "float16":
            converter.target_spec.supported_types = [tensorflow.float16]
        converted = converter.convert()
    except Exception as error:  # ConverterError is no public class
        raise Refused(
            f"TensorFlow cannot convert the model to LiteRT: {first_words(error)}"
        ) from error
    shutil.rmtree(path)
    if precision == "int8" and not _has_int8(converted):
        raise Refused("LiteRT's converter leaves arrays of less than 1024 elements in float32")
    (folder / FILE).write_bytes(converted)


def _has_int8(converted):
    """Whether a model, given as bytes, has a tensor of int8."""
    from ai_edge_litert import schema_py_generated as schema

    for graph in schema.ModelT.InitFromPackedBuf(converted, 0).subgraphs:
        if any(tensor.type == schema.TensorType.INT8 for tensor in graph.tensors):
            return True
    return False


def load(folder, threads, xnnpack=True):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.AUTO
    if not xnnpack:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(
            str(folder / FILE), num_threads=threads, experimental_op_resolver_type=resolver
        )
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner("serve")
    except (RuntimeError, ValueError) as error:
        raise Refused(f"LiteRT cannot read the file: {first_words(error)}") from error
    inputs = _indices(runner.get_input_details())
    outputs = _indices(runner.get_output_details())

    def answer(arrays):
        for index, array in zip(inputs, arrays, strict=True):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return answer


def _indices(details):
    """The indices of tensors called ``…_0``, ``…_1``, … in this order."""
    names = sorted(details, key=lambda name: int(name.rpartition("_")[2]))
    return [details[name]["index"] for name in names]
