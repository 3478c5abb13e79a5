"""The names of the arrays that a model trains on and is validated with."""

ARRAYS = ("x_train", "y_train", "x_val", "y_val")
# What the loss of each sample, or of each of its time steps, is multiplied with.
WEIGHTS = ("sample_weight_train", "sample_weight_val")
