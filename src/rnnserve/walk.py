"""A walk through the functional graph of a Keras model: what its translations share."""

from dataclasses import dataclass

from rnnserve.refusals import Refused, of_layer

WITHOUT_EFFECT = ("Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout")


@dataclass
class Value:
    """A tensor of the translation. `name`: text or a number; `shape`: as Keras has it, None where
    it is free; `mask`: the name of a tensor of booleans (batch, time), or None."""

    name: object
    shape: tuple
    mask: object = None


def flat(outputs):
    """The values of a structure as a list."""
    if isinstance(outputs, Value):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = [outputs[name] for name in sorted(outputs)]
    found = []
    for each in outputs:
        found += flat(each)
    return found


def activation_name(layer, activation):
    """The name of one of Keras's activations; any other is refused."""
    name = getattr(activation, "__name__", type(activation).__name__)
    if getattr(activation, "__module__", "").partition(".")[0] != "keras":
        raise of_layer(layer, f"the activation {name} is not one of Keras's")
    return name


class Walk:
    """Calls ``translated(layer, kind, arguments, options)`` for each layer, and
    ``mask_operation(operation, kind, arguments, options)`` for what else Keras has in the graph."""

    def model(self, model, inputs):
        """The outputs of a functional or sequential model, in its structure."""
        import keras

        if isinstance(model, keras.Sequential):
            model = model._functional
        if not isinstance(model, keras.Model) or not hasattr(model, "_run_through_graph"):
            raise Refused(f"model {model.name}: only functional and sequential models have a graph")
        return model._run_through_graph(inputs, operation_fn=self.operation)

    def operation(self, operation):
        """The function that `_run_through_graph` calls in place of an operation of the model."""

        def call(*arguments, **options):
            return self.layer(operation, arguments, options)

        return call

    def layer(self, layer, arguments, options):
        import keras

        if isinstance(layer, keras.Model):
            return self.model(layer, flat(arguments))
        kind = type(layer).__name__
        if not isinstance(layer, keras.layers.Layer):
            return self.mask_operation(layer, kind, arguments, options)
        if type(layer).__module__.partition(".")[0] != "keras":
            raise of_layer(layer, f"{kind} is not a class of Keras")
        if layer.compute_dtype != "float32":
            raise of_layer(layer, f"computes in {layer.compute_dtype}, not in float32")
        options = {name: option for name, option in options.items() if option is not None}
        options.pop("training", None)
        return self.translated(layer, kind, arguments, options)

    def by_kind(self, layer, kind, value):
        """What the method ``of_KIND`` makes of a layer with one input."""
        if not isinstance(value, Value):
            raise of_layer(layer, "has several inputs")
        method = getattr(self, f"of_{kind}", None)
        if method is None:
            raise of_layer(layer, f"{kind} has no translation")
        return method(layer, value)
