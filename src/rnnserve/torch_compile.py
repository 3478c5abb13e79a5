"""The module of `torch_eager`, compiled by ``torch.compile`` for each shape."""

from rnnserve import torch_eager
from rnnserve.torch_eager import export

__all__ = ["CODE", "FIXED_SHAPES", "export", "load"]

FIXED_SHAPES = False
CODE = torch_eager.CODE.replace('Model(".")', 'torch.compile(Model("."))')


def load(folder, threads):
    return torch_eager.load(folder, threads, is_compiled=True)
