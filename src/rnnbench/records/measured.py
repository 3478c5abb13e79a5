"""What workers report of runs and phases: the facts that the controller reads, with their types.
Files keep all facts."""

from __future__ import annotations

from typing import Literal

import msgspec

from rnnbench.records.bounds import Amount, Count, Number, Positive, Seconds


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of what a worker reports. Other facts than the fields may be among it."""


class Load(Reported, frozen=True):
    """CPU seconds during a timed phase: the run's `own`, those of other processes (`foreign`; None
    if the host does not report them), and those that the hypervisor took (`steal`)."""

    own: Number | None = None
    foreign: Number | None = None
    steal: Number = 0.0


class Details(Reported, frozen=True):
    """The facts of a phase that the controller reads, with their defaults.

    - `load`: of a timed phase.
    - `samples`, `first_call`, `calls`: of ``evaluate`` and ``predict``: samples per call, seconds
      of the first call and of each later one.
    - `before_fork`: seconds of the importer of a forked worker.
    - `waited`: seconds at the gate, in which others had their turns.
    - `set_up`, `tear_down`, `second_clock`: seconds of ``train``: before its first epoch, after its
      last, and of the whole phase by the kernel's raw clock.
    - `weighted`: the parts of the data with sample weights.
    """

    load: Load = Load()
    waited: Seconds = 0.0
    samples: Count | None = None
    first_call: Seconds | None = None
    calls: tuple[Seconds, ...] = ()
    set_up: Seconds | None = None
    tear_down: Seconds | None = None
    second_clock: Seconds | None = None
    before_fork: Seconds = 0.0
    weighted: tuple[Literal["train", "val"], ...] = ()


class Kernel(Reported, frozen=True):
    """The recurrent kernels of an executed training step.

    - `found`: their names; empty if none was recognised, or nobody looked.
    - `expected`: those that the label promises; None if it promises none.
    - `why_not_cudnn`: reasons, if a layer could not use cuDNN.
    """

    found: tuple[str, ...] = ()
    expected: tuple[str, ...] | None = None
    why_not_cudnn: tuple[str, ...] = ()


class Precision(Reported, frozen=True):
    """The precision as read back from the built layers.

    - `policy`, `layers`: compute types of the model and of its recurrent layers.
    - `tf32`: whether products on a GPU may use TF32, as the framework says; only shown.
    - `asked`: the choice; `as_asked`: whether the layers compute in it.
    """

    policy: str = ""
    layers: tuple[str, ...] = ()
    tf32: object = None
    asked: str = ""
    as_asked: bool | None = None


class Threads(Reported, frozen=True):
    """Numbers of threads.

    - `asked`: those of the device; `intra_op`: those that the framework reports for one operation.
    - `pinned_to`: the cores on which the process may run.
    """

    asked: Count | None = None
    intra_op: Count | None = None
    pinned_to: tuple[Count, ...] | None = None


class Card(Reported, frozen=True):
    """A GPU that the run was given; `further`: the others, of a run with replicas."""

    name: str | None = None
    further: tuple[Card, ...] = ()


class CardUse(Reported, frozen=True):
    """What happened to the cards during the training (`rnnbench.running.card_use`).

    - `heat`: share of the seconds in which heat reduced the clocks.
    - `others`: number of other processes on the card; `ecc`: new uncorrected errors of its memory.
    """

    heat: Number | None = None
    others: Count | None = None
    ecc: Count | None = None


class Asleep(Reported, frozen=True):
    """How a run waited: the `seconds` of the turns in which others trained, and the `cpu_seconds`
    that it used in the meantime."""

    seconds: Seconds = 0.0
    cpu_seconds: Number = 0.0


class Optimizer(Reported, frozen=True):
    """The compiled optimizer. `learning_rate`: a number, or a mapping with the ``class_name`` of a
    schedule."""

    class_name: str | None = None
    learning_rate: object = None


class Quantities(Reported, frozen=True):
    """Numbers of a run, each a column of the tables; None if not reported.

    - `peak_memory_bytes`: of the process; `parameters`: number of weights of the model.
    - `joules_per_sample`: per training sample, validations included; `card_watts`: of its cards.
    - `flops_per_sample`: of the matrix products of a training step.
    - `timesteps`: of the longest sequence of a recurrent layer.
    """

    peak_memory_bytes: Count | None = None
    parameters: Count | None = None
    joules_per_sample: Amount | None = None
    card_watts: Amount | None = None
    flops_per_sample: Amount | None = None
    timesteps: Positive | None = None


class Measured(Quantities, frozen=True):
    """The facts of a record's ``measured`` that the controller reads, with their defaults.

    - `wall_seconds`: the run's share of its cohort's duration.
    - `closure`: share of the training that its parts do not explain (`rnnbench.running.verdict`).
    - `weights_sha256`, `started_weights_sha256`: of the canonical weights, and of those with which
      the training started.
    - `reads_bytes`: size of the array of the random reads.
    - `framework_devices`, `framework_cards`: names of what the framework sees.
    - `replicas`: number of devices that trained.
    - `loss`: with which the model was compiled: a name, or a list or mapping of names.
    - `random_layers`: names of the layers that draw random numbers while training.
    - `revision`: the commit of the code that measured.
    """

    wall_seconds: Seconds | None = None
    closure: Number | None = None
    weights_sha256: str = ""
    started_weights_sha256: str = ""
    reads_bytes: Count | None = None
    revision: str = ""
    kernel: Kernel = Kernel()
    precision: Precision = Precision()
    threads: Threads = Threads()
    asleep: Asleep = Asleep()
    card: Card | None = None
    card_use: CardUse = CardUse()
    framework_devices: tuple[str, ...] = ()
    framework_cards: tuple[str, ...] = ()
    replicas: Positive = 1
    loss: object = None
    optimizer: Optimizer = Optimizer()
    random_layers: tuple[str, ...] = ()

    @property
    def card_names(self) -> list[str]:
        """The names of the cards that the run was given; none on a CPU."""
        if self.card is None:
            return []
        return [each.name or "unnamed" for each in (self.card, *self.card.further)]
