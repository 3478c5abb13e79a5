"""TensorFlow 1.15's own Keras (``tf.keras`` 2.2.4), in graph mode."""

from rnnworker.frameworks import tensorflow_facts
from rnnworker.frameworks.arrays_session import ArraysSession, set_environment


def preload(config):
    """Imports what a session needs and runs nothing, so that a process may fork after it."""
    set_environment(config)
    with tensorflow_facts.heard() as said:
        import tensorflow

        tensorflow.keras.Model  # noqa: B018 (imported when it is asked for)
    tensorflow_facts.remember(said[0])


class Session(ArraysSession):
    def import_keras(self, tensorflow):
        return tensorflow.keras
