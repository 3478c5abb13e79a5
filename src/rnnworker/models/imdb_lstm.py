"""An RNN with dropout inside the cell on film reviews. Source: Keras's example ``imdb_lstm.py``."""

from rnnworker.readers import imdb


def prepare(source, config):
    """x (samples, sequence) int32 word indices, y (samples, 1) float32."""
    return imdb.word_indices(source, config)


def build(keras, recurrent, config):
    """Embedding → RNN → sigmoid."""
    layers = keras.layers
    model = config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    vectors = layers.Embedding(model["words"], model["embedding"])(inputs)
    rnn = recurrent(
        model["units"],
        dropout=model["input_dropout"],
        recurrent_dropout=model["recurrent_dropout"],
    )
    outputs = layers.Dense(1, activation="sigmoid")(rnn(vectors))
    return keras.models.Model(inputs, outputs)
