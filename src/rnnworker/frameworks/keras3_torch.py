"""Keras 3 on PyTorch."""

import collections
import contextlib
import itertools
import os
import re

import numpy

from rnnlayers.which_keras import PACKAGES
from rnnworker import attest, precision, trees, user_functions
from rnnworker.frameworks import keras_checks, random_layers
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.keras_training import bounds
from rnnworker.recurrent.composed import flat

MARK = "a recurrent module of torch"


class Session(KerasSession):
    """A ``DataLoader`` without workers gathers the batches from tensors in memory."""

    def __init__(self, config, threads):
        super().__init__(config, threads)
        os.environ["KERAS_BACKEND"] = "torch"
        if config["device"]["kind"] == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import torch

        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != threads:  # torch accepts it once per process
            torch.set_num_interop_threads(threads)
        import keras

        self.torch = torch
        self.keras = keras

    def build_facts(self):
        torch = self.torch
        return {
            "torch": torch.__version__,
            "torch_git": torch.version.git_version,
            "build_info": torch.__config__.show(),
            "onednn": onednn_version(torch.__config__.show()),
            "instructions_used": torch.backends.cpu.get_cpu_capability(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }

    def loses_states(self, layer):
        """Source: Keras 3.15 with torch 2.13; findings/ has a script for each."""
        policy = precision.policy(self.config)
        if policy in precision.MIXED:
            return (
                "Keras on torch keeps no states under {}, they stay 0: use precision=float32 or a "
                "build of TensorFlow".format(policy)
            )
        has_cudnn = self.recurrent.kernel in ("auto", "cudnn")
        if (
            has_cudnn
            and getattr(layer, "reset_after", True)
            and isinstance(layer, (self.keras.layers.LSTM, self.keras.layers.GRU))
        ):
            return "Keras on torch cannot train it if cuDNN may be used: write rnn=keras"
        return None

    def thread_counts(self):
        return self.torch.get_num_threads(), self.torch.get_num_interop_threads()

    def devices(self):
        torch = self.torch
        gpus = range(torch.cuda.device_count())
        return {
            "framework_devices": ["cpu"] + ["cuda:{}".format(index) for index in gpus],
            "framework_cards": [torch.cuda.get_device_name(index) for index in gpus],
        }

    def batches(self, samples, orders, batch):
        torch = self.torch
        # `to` returns the tensor itself where it is on the device already.
        device = torch.device("cpu")
        if self.feed == "device":
            device = self.model.variables[0].value.device

        def placed(array):
            return torch.from_numpy(numpy.asarray(array)).to(device)

        samples = trees.mapped(placed, samples)
        order = placed(numpy.concatenate(orders))
        starts, stops = bounds(orders, batch)
        pairs = list(zip(starts, stops))

        class Batches(torch.utils.data.IterableDataset):
            def __iter__(self):
                for start, stop in itertools.cycle(pairs):
                    yield trees.taken(samples, order[start:stop])

        return torch.utils.data.DataLoader(Batches(), batch_size=None)

    # ``train_on_batch`` gives a model's own ``compute_loss`` arrays of NumPy.
    train_batch = KerasSession.fit_batch

    def loss_gradients(self):
        variables = [variable.value for variable in self.model.trainable_variables]

        def on_device(array):
            return self.torch.from_numpy(numpy.asarray(array)).to(variables[0].device)

        def gradients(*samples):
            loss = self.loss(*trees.mapped(on_device, samples))
            return self._gradients(loss, variables)

        return gradients

    def _gradients(self, loss, tensors):
        # Zeros of a weight that the loss does not depend on.
        computed = self.torch.autograd.grad(loss, tensors, materialize_grads=True)
        return [gradient.float().cpu().numpy() for gradient in computed]

    def _layer_gradients(self, layer, x, upstream):
        torch = self.torch
        variables = [variable.value for variable in layer.trainable_variables]
        device = variables[0].device
        x = torch.tensor(x, requires_grad=True, device=device)
        outputs = layer(x, training=True).float()
        loss = (outputs * torch.tensor(upstream, device=device)).sum()
        return outputs.detach().cpu().numpy(), self._gradients(loss, [x] + variables)

    def layer_outputs(self, layer, x):
        self.model.eval()  # as Keras's ``evaluate`` and ``predict`` do
        with self.torch.no_grad():
            outputs = super().layer_outputs(layer, x)
        self.model.train()
        return outputs

    def complete_model(self):
        self._kept = list(self._keeps())
        super().complete_model()
        self._set_back()
        self._kept = list(self._keeps())  # a layer may make more when it is built

    def give_kernel(self):
        super().give_kernel()
        self._set_back()

    def _keeps(self):
        """[(dict or list, key, value, copy of a tensor or an array)] of what an eager step may
        change beside variables: the buffers of torch's modules; and tensors, arrays, numbers and
        booleans in attributes of the author's own, also inside dicts, lists and objects of the
        author's."""
        # The certificate sets these itself, and resets meanwhile.
        rates = random_layers.turned_off(self.model, self.keras.layers)
        rates = {(id(layer), name) for layer, name, _ in rates}
        # A name of its own: Keras would count it among the models that it names.
        of_keras = vars(self.keras.Model(name="attributes"))
        seen = set()

        def kept(holder, items):
            for key, value in items:
                if isinstance(value, (self.torch.Tensor, numpy.ndarray)):
                    yield holder, key, value, self._copied(value)
                elif type(value) in (bool, int, float):
                    yield holder, key, value, None
                elif id(value) not in seen:
                    seen.add(id(value))
                    if isinstance(value, dict):
                        yield from kept(value, value.items())
                    elif isinstance(value, list):
                        yield from kept(value, enumerate(value))
                    elif hasattr(value, "__dict__") and self._is_of_author(value):
                        yield from kept(vars(value), vars(value).items())

        for module in self._modules():
            yield from kept(module._buffers, module._buffers.items())
            if type(module).__module__.partition(".")[0] in (*PACKAGES, "torch"):
                continue
            own = vars(module)
            items = [
                (name, own[name])
                for name in own
                if name not in of_keras and (id(module), name) not in rates
            ]
            yield from kept(own, items)

    def _copied(self, value):
        """A copy of a tensor or an array; None if it cannot be written to, because it is read-only
        or, as torch's ``expand`` makes it, has one entry at several places."""
        if isinstance(value, numpy.ndarray):
            return value.copy() if value.flags.writeable else None
        if value.layout is self.torch.strided:
            steps = zip(value.stride(), value.shape)
            if any(not step and size > 1 for step, size in steps):
                return None
        return value.detach().clone()

    def _is_of_author(self, value):
        """Whether `value` is an object of a class in the model's file or beside it."""
        if isinstance(value, (type, self.torch.nn.Module)):  # `_modules` has these
            return False
        return user_functions.is_of_user(type(value).__module__.partition(".")[0])

    def _modules(self):
        """The layers of the model and the modules of torch inside them, each once."""
        found = {}  # a dict keeps their order
        for layer in flat([self.model]):
            found.update(dict.fromkeys(layer.modules()))
        return list(found)

    def _set_back(self):
        with self.torch.no_grad():
            for holder, key, value, copy in self._kept:
                if isinstance(copy, numpy.ndarray):
                    value[...] = copy
                elif copy is not None:
                    value.copy_(copy)
                holder[key] = value

    def reset(self):
        super().reset()
        for variable in self.model.variables:
            variable.value.grad = None  # a `train_step` may add them up
        self._set_back()
        # Keras 3.15's dropout without a seed draws from torch's generator, not from its own
        # `SeedGenerator` (keras/src/backend/torch/random.py, ``dropout``).
        self.torch.manual_seed(self.config["seed"])

    def draw_others(self):
        # A `DataLoader` draws from the same generator, so that a step draws other masks.
        self.torch.manual_seed(self.config["seed"] + 1)

    @contextlib.contextmanager
    def refusing_optimizers(self):
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        refuse = register_optimizer_step_pre_hook(
            lambda optimizer, *_: keras_checks.refuse_optimizer(self, optimizer)
        )
        try:
            yield
        finally:
            refuse.remove()

    def kernels(self, run, steps):
        """The kernels that `run` ran, from torch's profiler, without what recurrent modules of
        torch itself ran, such as a ``torch.nn.LSTM`` of the author's."""
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        with self._marked_modules(), profiler.profile(activities=activities) as profile:
            run()
        counts = collections.Counter(
            event.name for event in profile.events() if not _is_marked(event)
        )
        return attest.kernels_in_torch(counts, steps)

    @contextlib.contextmanager
    def _marked_modules(self):
        """In its block, calls of torch's recurrent modules are marked in its profiler."""
        open_marks = []

        def begin(*_):
            open_marks.append(self.torch.profiler.record_function(MARK))
            open_marks[-1].__enter__()

        def end(*_):
            open_marks.pop().__exit__(None, None, None)

        with contextlib.ExitStack() as hooks:
            for module in self._modules():
                if isinstance(module, self.torch.nn.RNNBase):
                    hooks.callback(module.register_forward_pre_hook(begin).remove)
                    hooks.callback(module.register_forward_hook(end).remove)
            yield

    def cudnn_facts(self):
        torch = self.torch
        return {
            "gpus": torch.cuda.device_count(),
            "cuda_build": torch.version.cuda is not None,
        }

    def set_tf32(self, on):
        # The first applies to products, the second to cuDNN, for which torch's default is True.
        name = "highest"
        if on:
            name = "high"
        self.torch.set_float32_matmul_precision(name)
        self.torch.backends.cudnn.allow_tf32 = on

    def card_memory_peak(self):
        return int(self.torch.cuda.max_memory_allocated())

    def tf32(self):
        backends = self.torch.backends
        allowed = backends.cudnn.allow_tf32
        if backends.cuda.matmul.allow_tf32 != allowed:
            return "in part"
        return allowed

    def finish_device(self):
        if self.config["device"]["kind"] != "cpu" and self.torch.cuda.is_available():
            self.torch.cuda.synchronize()


def _is_marked(event):
    while event is not None:
        if event.name == MARK:
            return True
        event = event.cpu_parent
    return False


def onednn_version(build_info):
    """oneDNN's version in torch's text about its build, which may use oneDNN's former name."""
    match = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", build_info)
    if match is None:
        return None
    return match.group(1)
