"""onnxruntime with a graph whose recurrent layers are ONNX's own LSTM, GRU and RNN nodes."""

from rnnserve import onnx_graph, onnxruntime

FIXED_SHAPES = False
WRITTEN = '# once: from rnnserve import onnx_graph; onnx_graph.write(model, "model.onnx")\n'
CODE = WRITTEN + onnxruntime.SESSION


def export(model, arrays, folder):
    onnx_graph.write(model, folder / onnxruntime.FILE)


def load(folder, threads):
    return onnxruntime.load(folder, threads)
