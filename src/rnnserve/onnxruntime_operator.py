"""onnxruntime with a graph whose recurrent layers are ONNX's own LSTM, GRU and RNN nodes."""

from rnnserve import onnx_graph, onnxruntime

FIXED_SHAPES = False
CODE = """\
# once: from rnnserve import onnx_graph; onnx_graph.write(model, "model.onnx")
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = HOW_MANY
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession("model.onnx", options)
names = [each.name for each in session.get_inputs()]
outputs = session.run(None, dict(zip(names, arrays)))  # arrays: a list, in the model's order
"""


def export(model, arrays, folder):
    onnx_graph.write(model, folder / onnxruntime.FILE)


def load(folder, threads):
    return onnxruntime.load(folder, threads)
