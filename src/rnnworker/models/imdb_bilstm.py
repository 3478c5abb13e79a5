"""A bidirectional RNN on film reviews. Source: Keras's example ``imdb_bidirectional_lstm.py``."""

from rnnworker.readers import imdb


def prepare(source, config):
    """x (samples, sequence) int32 word indices, y (samples, 1) float32."""
    return imdb.word_indices(source, config)


def build(keras, recurrent, config):
    """Embedding → bidirectional RNN, last outputs side by side → dropout → sigmoid."""
    layers = keras.layers
    model = config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    vectors = layers.Embedding(model["words"], model["embedding"])(inputs)
    rnn = recurrent.bidirectional(
        model["units"],
        recurrent_dropout=model["recurrent_dropout"],
    )
    hidden = layers.Dropout(model["dropout"])(rnn(vectors))
    outputs = layers.Dense(1, activation="sigmoid")(hidden)
    return keras.models.Model(inputs, outputs)
