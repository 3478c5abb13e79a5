"""What a runtime cannot carry: the layer's name and the reason."""


class Refused(ValueError):
    """A conversion cannot carry a model. The message names the layer, if it is one, and the
    reason."""


def of_layer(layer, reason):
    """The `Refused` of a `layer`; `reason` is the end of a sentence."""
    return Refused(f"layer {layer.name}: {reason}")


def of_precision(library, precision, known):
    """The `Refused` of a precision that a library does not have."""
    return Refused(f"{library} has no precision {precision} here, only {', '.join(known)}")


def first_words(error):
    """What a library's error says, without the places in its own sources, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    text = " ".join(said) or type(error).__name__
    if len(text) > 300:
        text = f"{text[:300]} …"
    return text
