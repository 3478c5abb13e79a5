"""onnxruntime with a graph whose recurrent layers are ONNX's own LSTM, GRU and RNN nodes. The
option ``precision`` is that of `onnxruntime`."""

from rnnserve import onnx_graph, onnxruntime

FIXED_SHAPES = False
WRITTEN = '# once: from rnnserve import onnx_graph; onnx_graph.write(model, "model.onnx")\n'


def CODE(precision="float32"):
    return WRITTEN + onnxruntime.lines_of(precision) + onnxruntime.SESSION


def export(model, arrays, folder, precision="float32"):
    onnx_graph.write(model, folder / onnxruntime.FILE)
    onnxruntime.lower(folder / onnxruntime.FILE, precision)


def load(folder, threads):
    return onnxruntime.load(folder, threads)
