"""Translates the optimizer in a model's YAML into that of a framework.

The YAML uses the setting names of Keras 3 (``learning_rate``), plus Keras 2's ``decay``: at step t
the learning rate is ``learning_rate / (1 + decay · t)``. All settings are given explicitly, because
the defaults differ between versions: Adadelta's learning rate is 1.0 in Keras 2.0.6 and 0.001 in
Keras 3, and epsilon has changed from 1e-8 to 1e-7.

Source: Keras 2.0.6, ``keras/optimizers.py``; Keras 3, ``keras/src/optimizers``.
"""

from typing import Any, Tuple

from rnnworker.json_types import Config, Json

WITH_EPSILON = ("adam", "adamax", "nadam", "rmsprop", "adagrad", "adadelta")


def for_keras_3(keras: Any, stated: Config) -> Any:
    """Returns the optimizer object for Keras 3, or for Keras 2 on TensorFlow 2; `stated` is the
    YAML's ``optimizer``. Raises ValueError if this Keras has no such optimizer."""
    settings = dict(stated)
    name = settings.pop("name")
    decay = settings.pop("decay", 0.0)
    if decay:
        settings["learning_rate"] = keras.optimizers.schedules.InverseTimeDecay(
            settings["learning_rate"],
            decay_steps=1,
            decay_rate=decay,
        )
    # By class: the lookup by name of Keras 2.15 does not know AdamW and Lion.
    classes = {entry.lower(): entry for entry in dir(keras.optimizers) if entry[0].isupper()}
    if name.lower() not in classes:
        raise ValueError("model.optimizer.name: this Keras has no optimizer {!r}".format(name))
    optimizer = getattr(keras.optimizers, classes[name.lower()])
    return optimizer(**settings)


def for_keras_2(stated: Config) -> Tuple[str, Json]:
    """Returns class name and arguments for Keras 2 up to 2.2 and TensorFlow 1's ``tf.keras``, in
    which the learning rate is called ``lr`` and ``decay`` is an argument."""
    settings = dict(stated)
    name = settings.pop("name")
    if "learning_rate" in settings:
        settings["lr"] = settings.pop("learning_rate")
    if name.lower() in WITH_EPSILON:
        settings.setdefault("epsilon", 1e-7)  # Keras 3's default; it was 1e-8
    return name, settings
