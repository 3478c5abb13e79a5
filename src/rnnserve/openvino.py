"""OpenVINO with the graph of `onnx_graph`: of Keras on TensorFlow it converts no recurrent loop.

The option ``precision``: ``float16`` (weights) or ``bfloat16`` (computation, where the processor
has it).
"""

from rnnserve import onnx_graph
from rnnserve.onnxruntime import FILE
from rnnserve.refusals import Refused, first_words, of_precision

FIXED_SHAPES = False
COMPRESSED = "model.xml"  # with weights of float16, which are beside it in model.bin
HINTS = {"float32": "f32", "float16": "f32", "bfloat16": "bf16"}
LINES = """\
# once, with: from rnnserve import onnx_graph
# onnx_graph.write(model, "model.onnx", trusts_lengths=False)
import openvino
options = {
    "INFERENCE_NUM_THREADS": HOW_MANY,
    "NUM_STREAMS": 1,
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "COMPUTES_IN",
}
compiled = openvino.Core().compile_model("model.onnx", "CPU", options)
request = compiled.create_infer_request()
outputs = request.infer(arrays)  # arrays: a list, in the model's order
"""
COMPRESS = """\
# openvino.save_model(openvino.convert_model("model.onnx"), "model.xml", compress_to_fp16=True)
import openvino
"""


def CODE(precision="float32"):
    lines = LINES.replace("COMPUTES_IN", HINTS[precision])
    if precision == "float16":
        lines = lines.replace("import openvino\n", COMPRESS)
        lines = lines.replace('compile_model("model.onnx"', 'compile_model("model.xml"')
    return lines


def export(model, arrays, folder, precision="float32"):
    if precision not in HINTS:
        raise of_precision("OpenVINO", precision, HINTS)
    # Its nodes with free shapes ignore ``sequence_lens`` in their last output (2026.4).
    onnx_graph.write(model, folder / FILE, trusts_lengths=False)
    if precision != "float16":
        return
    import openvino

    try:
        read = openvino.convert_model(str(folder / FILE))
        openvino.save_model(read, str(folder / COMPRESSED), compress_to_fp16=True)
    except RuntimeError as error:
        raise Refused(f"OpenVINO cannot convert the file: {first_words(error)}") from error
    (folder / FILE).unlink()


def load(folder, threads, precision="float32"):
    import openvino

    # Threads of its own choice of precision and number would make it another measurement.
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": HINTS[precision],
    }
    file = COMPRESSED if precision == "float16" else FILE
    try:
        compiled = openvino.Core().compile_model(str(folder / file), "CPU", options)
    except RuntimeError as error:
        raise Refused(f"OpenVINO cannot read the file: {first_words(error)}") from error
    used = compiled.get_property("INFERENCE_NUM_THREADS")
    if used != threads:
        raise Refused(f"OpenVINO has {used} threads, not {threads}")
    computes = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if computes != HINTS[precision]:
        raise Refused(f"OpenVINO computes in {computes} on this processor, not in {precision}")
    request = compiled.create_infer_request()
    outputs = compiled.outputs

    def answer(arrays):
        found = request.infer(list(arrays))
        return [found[output].copy() for output in outputs]

    return answer
