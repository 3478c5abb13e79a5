"""The known frameworks: one description each, which the controller, the worker and bundles read.
Of these lines, the identity of a run has the module, the engine and the kernels of its framework.
"""

from typing import Dict, NamedTuple, Tuple

TENSORFLOW_2 = {"tensorflow": "2.", "tensorflow-cpu": "2."}


class Framework(NamedTuple):
    """- `module`: the module of its session, in this package.
    - `engine`: what computes its arrays, of TensorFlow with its first number.
    - `needs`: groups of alternatives, distribution → prefix of its version, one of which must be
      installed; `imports`: the modules that it imports.
    - `kernels`: TensorFlow's name of a kernel → the framework's name (``attest``).
    - `can_fork`: forked runs train as fast as runs in a new process (``benchmarks/forked.py``).
    - `has_replicas`, `has_policy`: whether it trains on several cards, and has dtype policies.
    - `auto_uses_cudnn`: whether the implementation ``auto`` may choose cuDNN's kernel.
    - `epsilon_outside_root`, `squares_per_occurrence`: how its optimizers differ from the others'
      (``report.notes.optimizer_notes``)."""

    module: str
    engine: str
    imports: Tuple[str, ...]
    needs: Tuple[Dict[str, str], ...] = ()
    kernels: Dict[str, str] = {}
    can_fork: bool = False
    has_replicas: bool = False
    has_policy: bool = True
    auto_uses_cudnn: bool = True
    epsilon_outside_root: bool = False
    squares_per_occurrence: bool = False

    @property
    def backend(self) -> str:
        """Keras's name of what computes its arrays."""
        return self.engine.rstrip("12")


FRAMEWORKS = {
    "keras3_tensorflow": Framework(
        module="keras3_tensorflow",
        engine="tensorflow2",
        needs=({"keras": "3."}, TENSORFLOW_2),
        imports=("numpy", "tensorflow", "keras"),
        can_fork=True,
        has_replicas=True,
        squares_per_occurrence=True,
    ),
    "keras3_torch": Framework(
        module="keras3_torch",
        engine="torch",
        needs=({"keras": "3."}, {"torch": "2."}),
        imports=("numpy", "torch", "keras"),
        kernels={"while": "torch:loop", "unrolled": "torch:loop", "cudnn": "torch:cudnn"},
    ),
    "keras3_jax": Framework(
        module="keras3_jax",
        engine="jax",
        needs=({"keras": "3."}, {"jax": "0."}),
        imports=("numpy", "jax", "keras"),
        kernels={"while": "jax:scan", "cudnn": "jax:cudnn"},
    ),
    "keras2_tensorflow2": Framework(
        module="keras3_tensorflow",
        engine="tensorflow2",
        needs=({"tf_keras": "2.", "keras": "2."}, TENSORFLOW_2),
        imports=("numpy", "tensorflow"),
        has_replicas=True,
    ),
    "keras2_tensorflow1": Framework(
        module="keras2_tensorflow1",
        engine="tensorflow1",
        needs=({"tensorflow": "1."},),
        imports=("numpy", "tensorflow"),
        has_policy=False,
        auto_uses_cudnn=False,
        epsilon_outside_root=True,
    ),
    "keras206_tensorflow1": Framework(
        module="keras206_tensorflow1",
        engine="tensorflow1",
        needs=({"keras": "2.0."}, {"tensorflow": "1."}),
        imports=("numpy", "tensorflow", "keras"),
        has_policy=False,
        auto_uses_cudnn=False,
        epsilon_outside_root=True,
    ),
    "fake": Framework(module="fake", engine="none", imports=("numpy",), can_fork=True),
}
