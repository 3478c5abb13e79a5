"""The methods of a Keras session that certification and attestation need."""

from rnnworker import attest
from rnnworker.recurrent.composed import inner_layers


class KerasProbe:
    """A mix-in of `KerasSession`. A framework adds ``layer_gradients(layer, x, upstream)`` and
    ``executed_ops(run)`` or ``kernels(steps)``; without the latter nothing is attested."""

    def train_batch(self, x, y):
        """Takes one training step; returns the loss before it."""
        if hasattr(self.model, "reset_metrics"):
            self.model.reset_metrics()
        loss = self.model.train_on_batch(x, y)
        return float(loss[0] if isinstance(loss, (list, tuple)) else loss)

    def outputs(self, samples):
        """The model's outputs for the first `samples` of the validation set."""
        x = self.arrays["x_val"][:samples]
        return self.model.predict(x, batch_size=self.config["model"]["batch"], verbose=0)

    def layer_shapes(self, layer):
        """The shapes of one sample of the layer's inputs and of its outputs."""
        return tuple(_inputs(layer)[0].shape)[1:], tuple(layer.output.shape)[1:]

    def layer_gradients(self, layer, x, upstream):
        """(outputs, gradients of sum(outputs ∘ upstream) with respect to ``x`` and the canonical
        arrays), with ``training=True``."""
        raise NotImplementedError

    def layer_outputs(self, layer, x):
        """The outputs with ``training=False``, as in ``evaluate`` and ``predict``."""
        ops = self.keras.ops
        outputs = layer(ops.convert_to_tensor(x), training=False)
        return ops.convert_to_numpy(ops.cast(outputs, "float32"))

    def executed_ops(self, run):
        """[(path, op type, count)] of the ops that `run` executes; None if the framework does not
        report them."""

    def attest(self):
        """``measured.kernel`` of a record, from one training step; None without a recurrent
        layer, or if this framework does not report what it executes."""
        if not self.recurrent.layers:
            return None
        time_steps = [self.layer_shapes(layer)[0][0] for layer in self.recurrent.layers]
        kernels = self.kernels(min(time_steps))
        if kernels is None:
            return None
        cudnn = any(name.endswith("cudnn") for name in kernels)
        return {
            "found": kernels,
            "expected": attest.expected(self.config),
            "why_not_cudnn": [] if cudnn else self._why_not_cudnn(),
        }

    def kernels(self, steps):
        """The kernels that one training step ran on sequences of at least `steps` time steps; None
        if the framework does not report them."""
        ops = self.executed_ops(lambda: self.train_steps(1))
        return None if ops is None else attest.kernels_in_tensorflow(ops, steps)

    def cudnn_facts(self):
        """``gpus`` and ``cuda_build`` as the framework reports them."""
        return {}

    def _why_not_cudnn(self):
        reasons = []
        for layer in self.recurrent.layers:
            facts = dict(
                attest.layer_facts(inner_layers(layer)[0]),  # they have the same settings
                cell=self.recurrent.cell,
                device=self.config["device"]["kind"],
                mask=_is_masked(layer),
            )
            reasons += attest.why_not_cudnn(dict(facts, **self.cudnn_facts()))
        return sorted(set(reasons), key=reasons.index)


def _inputs(layer):
    """The layer's inputs: its sequence, and in Keras 3 a mask if there is one."""
    inputs = layer.input
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _is_masked(layer):
    inputs = _inputs(layer)
    masks = [getattr(inputs[0], "_keras_mask", None), getattr(layer, "input_mask", None)]
    return len(inputs) > 1 or any(mask is not None for mask in masks)
