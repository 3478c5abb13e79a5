"""LiteRT with a fixed batch and length, without XNNPACK."""

from rnnserve import litert
from rnnserve.litert import export

__all__ = ["CODE", "FIXED_SHAPES", "export", "load"]

FIXED_SHAPES = True
CODE = litert.CODE.replace("import Interpreter\n", "import Interpreter, OpResolverType\n").replace(
    "num_threads=HOW_MANY)",
    "num_threads=HOW_MANY,\n"
    "    experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
)


def load(folder, threads):
    return litert.load(folder, threads, is_plain=True)
