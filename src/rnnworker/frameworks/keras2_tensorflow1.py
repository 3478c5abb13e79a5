"""The Keras of TensorFlow 1.15 (``tf.keras`` 2.2.4) in graph mode."""

from rnnworker.frameworks.arrays_session import ArraysSession


class Session(ArraysSession):
    def import_keras(self, tensorflow):
        return tensorflow.keras
