"""A module beside a model's file, which is found as with ``python ordinary.py``."""

from keras.layers import LSTM, Dense


def tower(inputs):
    return Dense(1)(LSTM(4)(inputs))
