"""Converts the LSTM, GRU and SimpleRNN layers of checkpoints between the layouts of frameworks."""
