"""onnxruntime with a graph whose recurrent layers are ONNX's own LSTM, GRU and RNN nodes."""

from rnnserve import onnx_graph, onnxruntime

FIXED_SHAPES = False
CODE = """\
# once: rnnserve.onnx_graph.write(model, "model.onnx")
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("model.onnx", options)
y = session.run(None, {session.get_inputs()[0].name: x})[0]
"""


def export(model, arrays, folder):
    onnx_graph.write(model, folder / onnxruntime.FILE)


def load(folder, threads):
    return onnxruntime.load(folder, threads)
