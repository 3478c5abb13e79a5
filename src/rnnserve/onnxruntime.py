"""onnxruntime with the file that Keras itself exports. The option ``precision``: ``int8``
(onnxruntime's dynamic quantization: weights, and inputs in each call) or ``float16`` (weights; a
processor without operators of float16 computes in float32)."""

from rnnserve.refusals import Refused, first_words, of_precision

FIXED_SHAPES = False
FILE = "model.onnx"
SESSION = """\
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = HOW_MANY
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession("model.onnx", options)
names = [each.name for each in session.get_inputs()]
outputs = session.run(None, dict(zip(names, arrays)))  # arrays: a list, in the model's order
"""
PRECISIONS = ("float32", "float16", "int8")
IN_FLOAT32 = ("LSTM", "GRU", "RNN", "Loop", "Scan")  # what dynamic quantization may leave
LOWERED = """\
from rnnserve import onnxruntime as rnnserve_onnxruntime
rnnserve_onnxruntime.lower("model.onnx", {precision!r})
"""


def CODE(precision="float32"):
    return '# once: model.export("model.onnx", format="onnx")\n' + lines_of(precision) + SESSION


def lines_of(precision):
    """The lines that lower the precision of the file, as comments; ``""`` for float32."""
    if precision == "float32":
        return ""
    lines = LOWERED.format(precision=precision).splitlines()
    return "".join(f"#       {line}\n" for line in lines)


def export(model, arrays, folder, precision="float32"):
    from rnnserve import keras_models

    keras_models.reset_states(model)
    signature = keras_models.specifications(model, arrays, is_fixed=False)
    try:
        model.export(
            str(folder / FILE),
            format="onnx",
            verbose=False,
            input_signature=[keras_models.packed(model, signature)],
        )
    except Exception as error:  # tf2onnx raises many kinds
        raise Refused(f"Keras cannot export the model to ONNX: {first_words(error)}") from error
    lower(folder / FILE, precision)


def lower(path, precision):
    """Rewrites the file of a model with a lower precision. Raises `Refused` if a recurrent layer
    would stay in float32: dynamic quantization leaves all but LSTM without a word."""
    if precision not in PRECISIONS:
        raise of_precision("onnxruntime", precision, PRECISIONS)
    if precision == "float32":
        return
    import onnx

    if precision == "float16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=True), path)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # In 7 bits: with 8, sums saturate on processors without VNNI, where an LSTM is off by 0.11.
    quantize_dynamic(str(path), str(path), weight_type=QuantType.QInt8, reduce_range=True)
    for node in onnx.load(path).graph.node:
        if node.op_type in IN_FLOAT32:
            raise Refused(f"onnxruntime's quantization leaves the {node.op_type} in float32")


def load(folder, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(folder / FILE), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its classes have no common base but Exception
        raise Refused(f"onnxruntime cannot read the file: {first_words(error)}") from error
    used = session.get_session_options().intra_op_num_threads
    if used != threads:
        raise Refused(f"onnxruntime has {used} threads, not {threads}")
    names = [each.name for each in session.get_inputs()]

    def answer(arrays):
        return session.run(None, dict(zip(names, arrays, strict=True)))

    return answer
