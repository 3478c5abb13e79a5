"""Keras 2 on TensorFlow 2: TensorFlow's own up to 2.15, the package ``tf_keras`` after it."""

from rnnworker.frameworks import keras3_tensorflow
from rnnworker.frameworks.tensorflow_facts import keras_version


class Session(keras3_tensorflow.Session):
    """As Keras 3 on TensorFlow, with the Keras that ``tensorflow.keras`` is in this build."""

    resets_dropout = False  # its masks come from ops whose state nobody can set

    def import_keras(self, tensorflow):
        keras = tensorflow.keras
        version = keras_version(keras)
        if not version.startswith("2."):
            raise ValueError(
                "tensorflow.keras is Keras {}: set TF_USE_LEGACY_KERAS=1 in build.environment "
                "and install tf_keras".format(version)
            )
        return keras
