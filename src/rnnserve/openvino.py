"""OpenVINO with the graph of `onnx_graph`: of Keras on TensorFlow it converts no recurrent loop."""

from rnnserve import onnx_graph
from rnnserve.onnxruntime import FILE
from rnnserve.refusals import Refused, first_words

FIXED_SHAPES = False
CODE = """\
# once, with: from rnnserve import onnx_graph
# onnx_graph.write(model, "model.onnx", trusts_lengths=False)
import openvino
options = {
    "INFERENCE_NUM_THREADS": HOW_MANY,
    "NUM_STREAMS": 1,
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
}
compiled = openvino.Core().compile_model("model.onnx", "CPU", options)
request = compiled.create_infer_request()
outputs = request.infer(arrays)  # arrays: a list, in the model's order
"""


def export(model, arrays, folder):
    # Its nodes with free shapes ignore ``sequence_lens`` in their last output (2026.4).
    onnx_graph.write(model, folder / FILE, trusts_lengths=False)


def load(folder, threads):
    import openvino

    # Threads of its own choice of precision and number would make it another measurement.
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    try:
        compiled = openvino.Core().compile_model(str(folder / FILE), "CPU", options)
    except RuntimeError as error:
        raise Refused(f"OpenVINO cannot read the file: {first_words(error)}") from error
    used = compiled.get_property("INFERENCE_NUM_THREADS")
    if used != threads:
        raise Refused(f"OpenVINO has {used} threads, not {threads}")
    request = compiled.create_infer_request()
    outputs = compiled.outputs

    def answer(arrays):
        found = request.infer(list(arrays))
        return [found[output].copy() for output in outputs]

    return answer
