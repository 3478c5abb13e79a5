"""Keras 2 on TensorFlow 2: TensorFlow's own Keras up to 2.15, the package ``tf_keras`` later."""

from rnnworker.frameworks import keras3_tensorflow
from rnnworker.frameworks.tensorflow_facts import keras_version


class Session(keras3_tensorflow.Session):
    """The session of Keras 3 on TensorFlow with the build's ``tensorflow.keras``."""

    resets_dropout = False  # the masks come from ops whose state cannot be set

    def import_keras(self, tensorflow):
        keras = tensorflow.keras
        version = keras_version(keras)
        if not version.startswith("2."):
            raise ValueError(
                "tensorflow.keras is Keras {}: set TF_USE_LEGACY_KERAS=1 in build.environment "
                "and install tf_keras".format(version)
            )
        return keras
