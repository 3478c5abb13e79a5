"""TensorFlow's SavedModel, loaded without Keras."""

from rnnserve import keras_models

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
FOLDER = "saved_model"
CODE = """\
# once: model.export("saved_model")
import tensorflow as tf
served = tf.saved_model.load("saved_model")
y = served.serve(x)  # tensors, as the model takes them
"""


def export(model, arrays, folder):
    import keras
    import tensorflow

    keras_models.reset_states(model)
    archive = keras.export.ExportArchive()
    archive.track(model)

    def serve(*tensors):
        return model(keras_models.packed(model, tensors), training=False)

    signature = keras_models.specifications(model, arrays, is_fixed=False)
    archive.add_endpoint("serve", tensorflow.function(serve, input_signature=signature))
    archive.write_out(str(folder / FOLDER), verbose=False)


def load(folder, threads):
    keras_models.set_threads(threads)
    import tensorflow

    served = tensorflow.saved_model.load(str(folder / FOLDER))

    def answer(arrays):
        outputs = served.serve(*[tensorflow.constant(array) for array in arrays])
        return [output.numpy() for output in tensorflow.nest.flatten(outputs)]

    return answer
