"""onnxruntime with the file that Keras itself exports."""

from rnnserve.refusals import Refused, first_words

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
CODE = '# once: model.export("model.onnx", format="onnx")\n' + SESSION


def export(model, arrays, folder):
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
