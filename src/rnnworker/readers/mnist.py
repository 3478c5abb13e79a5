"""MNIST in the format of Keras's ``mnist.npz`` (LeCun et al. 1998)."""

SIDE = 28


def images(source):
    """Images (samples, 28, 28) float32 in 0–1 and labels (samples,) int64 0–9. The file's
    ``x_test`` is the validation set, as in the published examples."""
    return {
        "x_train": _scaled(source["x_train"]),
        "y_train": source["y_train"].astype("int64"),
        "x_val": _scaled(source["x_test"]),
        "y_val": source["y_test"].astype("int64"),
    }


def _scaled(pixels):
    return pixels.reshape(-1, SIDE, SIDE).astype("float32") / 255.0
