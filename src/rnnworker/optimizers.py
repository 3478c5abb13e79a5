"""From the optimizer that a model's YAML states to the one that a framework builds.

A YAML names its settings once, in the words of Keras 3 (``learning_rate``), plus Keras 2's
``decay``: at step t the learning rate is ``learning_rate / (1 + decay · t)``. They are stated in
full, because the defaults differ between generations: Adadelta's learning rate is 1.0 in Keras
2.0.6 and 0.001 in Keras 3, epsilon was 1e-8 and is 1e-7.

Source: Keras 2.0.6, ``keras/optimizers.py``; Keras 3, ``keras/src/optimizers``.
"""

WITH_EPSILON = ("adam", "adamax", "nadam", "rmsprop", "adagrad", "adadelta")


def for_keras_3(keras, stated):
    """The optimizer object for Keras 3, or Keras 2 on TensorFlow 2; `stated` is the YAML's
    ``optimizer``."""
    settings = dict(stated)
    name, decay = settings.pop("name"), settings.pop("decay", 0.0)
    if decay:
        settings["learning_rate"] = keras.optimizers.schedules.InverseTimeDecay(
            settings["learning_rate"], decay_steps=1, decay_rate=decay
        )
    # By its class: Keras 2.15's own look-up by name gives one of its legacy optimizers.
    classes = {one.lower(): one for one in dir(keras.optimizers) if one[0].isupper()}
    if name.lower() not in classes:
        raise ValueError("this Keras has no optimizer {!r}".format(name))
    return getattr(keras.optimizers, classes[name.lower()])(**settings)


def for_keras_2(stated):
    """Class name and arguments for Keras 2 up to 2.2 and TensorFlow 1's ``tf.keras``, where
    the learning rate is ``lr`` and ``decay`` an argument of its own."""
    settings = dict(stated)
    name = settings.pop("name")
    if "learning_rate" in settings:
        settings["lr"] = settings.pop("learning_rate")
    if name.lower() in WITH_EPSILON:
        settings.setdefault("epsilon", 1e-7)  # Keras 3's default; it was 1e-8
    return name, settings
