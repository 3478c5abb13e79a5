"""Training on several devices of one host: a replica of the model on each of them, with
``tf.distribute.MirroredStrategy`` in TensorFlow 2.

The batch of the config is that of all replicas together. Each replica takes an equal part of it,
and each step applies the gradient of the mean loss over the whole batch, as on one device.
"""

import numpy

from rnnworker import data, trees
from rnnworker.frameworks import keras3_tensorflow


class Session(keras3_tensorflow.Session):
    """The model of one run with ``device.replicas`` replicas."""

    can_feed_on_device = False
    takes_sample_weights = False

    def __init__(self, config, threads):
        self.replicas = config["device"]["replicas"]
        super().__init__(config, threads)
        kind = config["device"]["kind"].upper()
        names = ["{}:{}".format(kind, number) for number in range(self.replicas)]
        self.strategy = self.tensorflow.distribute.MirroredStrategy(names)

    def import_keras(self, tensorflow):
        # Before TensorFlow opens its devices.
        if self.config["device"]["kind"] == "cpu":
            split_cpu(tensorflow, self.replicas)
        return super().import_keras(tensorflow)

    def device_facts(self):
        return dict(super().device_facts(), replicas=self.strategy.num_replicas_in_sync)

    def load_data(self, path, pinned_md5=None):
        facts = super().load_data(path, pinned_md5)
        check_sizes(facts["sizes"], self.config["model"]["batch"], self.replicas)
        return facts

    def build(self):
        with self.strategy.scope():
            return super().build()

    def compile(self, optimizer=None):
        with self.strategy.scope():
            super().compile(optimizer)

    def make_metrics(self):
        # That of the class: a first compilation has replaced the model's own.
        complete = getattr(type(self.model), "_maybe_symbolic_build", None)
        if complete is not None and self.arrays is not None:
            # Keras 3 creates the metrics from a batch that each call of `fit` and `evaluate`
            # would take from its feed, whose next batch would then be the second one.
            x, y = trees.taken(data.samples(self.arrays, "train"), slice(1))
            complete(self.model, data_batch=(x, y, None))
            self.model._maybe_symbolic_build = lambda **feed: None

    def _pipeline(self, batch_of, orders, batch, size):
        """The pipeline yields the parts of the batches; consecutive parts go to consecutive
        replicas."""
        pipeline = super()._pipeline
        parts = parts_of(orders, batch, self.replicas)
        if size:
            size //= self.replicas
        feed = self.strategy.distribute_datasets_from_function(
            lambda context: pipeline(batch_of, parts, batch, size)
        )
        return keras3_tensorflow.with_iterator(feed)

    # In Keras 3 ``train_on_batch`` gives each replica the whole batch.
    train_batch = keras3_tensorflow.Session.fit_batch

    def compute_loss(self, x, y, y_pred, sample_weight):
        """The loss that the replicas compute together, computed on the first device alone: the
        model's own would update metrics that only replicas may update."""
        loss = self.keras.losses.get(self.model.loss)(y, y_pred)
        return self.tensorflow.reduce_mean(loss) + sum(self.model.losses)

    def card_memory_peak(self):
        """The peak of the fullest card."""
        info = self.tensorflow.config.experimental.get_memory_info
        peaks = [info("GPU:{}".format(number))["peak"] for number in range(self.replicas)]
        return int(max(peaks))


def split_cpu(tensorflow, replicas):
    """Makes `replicas` logical devices of the CPU; they share its threads."""
    (cpu,) = tensorflow.config.list_physical_devices("CPU")
    logical = [tensorflow.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tensorflow.config.set_logical_device_configuration(cpu, logical)


def check_sizes(sizes, batch, replicas):
    """Raises `ValueError` if a batch of the training or validation set (`sizes`: part → number of
    samples) cannot be split evenly: a mean over unequal parts is not that of the batch."""
    fault = (
        "a batch of {0} samples of {1} cannot be split evenly among {2} replicas; choose "
        "model.batch and model.{1}_samples (now {3}) that are multiples of {2}"
    )
    for part in sorted(sizes):
        samples = sizes[part]
        last = samples % batch  # 0 if the last batch is a whole one
        for size in (batch, last):
            if size % replicas:
                raise ValueError(fault.format(size, part, replicas, samples))


def parts_of(orders, batch, replicas):
    """The equal parts of all batches of the `orders`, `replicas` consecutive ones for each batch;
    no batch spans two orders. Raises `ValueError` if a batch cannot be split evenly."""
    parts = []
    for order in orders:
        for start in range(0, len(order), batch):
            whole = numpy.asarray(order[start : start + batch])
            parts += numpy.split(whole, replicas)
    return parts
