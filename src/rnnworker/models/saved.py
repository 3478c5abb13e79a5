"""A model that Keras 3 has saved as a whole: ``model=mine.keras``."""

from rnnworker import data
from rnnworker.arguments import Refusal


def build(keras, recurrent, config):
    """The model in ``model.file``, with its weights and, if it was saved with them, its optimizer
    and loss. Raises `Refusal` in Keras 2, and if the file is not the one that was planned."""
    path = config["model"]["file"]
    if not hasattr(keras, "ops"):
        fault = (
            "{}: Keras 2 cannot load a model that Keras 3 has saved: build=current, "
            "keras3_torch and keras3_jax can"
        )
        raise Refusal(fault.format(path))
    if data.md5(path) != config["model"]["md5"]:
        raise Refusal("{} has changed since it was planned: start again".format(path))
    return keras.models.load_model(path)
