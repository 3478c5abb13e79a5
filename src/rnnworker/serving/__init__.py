"""Prediction in a runtime: what is asked of it (`cases`), what the answers should be (`formulas`,
`float64`), how far rounding may move them (`rounding`), how good they are (`accuracy`), the process
that exports (`prepare`) and the process that answers and is timed (`answering`). Needs Python 3.11
and Keras 3 on TensorFlow, as `rnnserve` does."""
