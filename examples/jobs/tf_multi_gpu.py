"""Teaches the network of tf_digits.py on all GPUs of the job at once: each has a copy of the network and takes its share
of every batch (tf.distribute.MirroredStrategy). Where the GPUs are simulated, as many CPU devices play them."""

import sys

import lesson
import tensorflow as tf

from tf_digits import network, parse_options, train_and_test


def devices(count):
    """The `count` devices to train on, by their names in TensorFlow."""
    found = len(tf.config.list_physical_devices("GPU"))
    if found == 0:
        print(f"TensorFlow sees no GPU here: {count} CPU devices play the {count} GPUs")
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        return [f"CPU:{index}" for index in range(count)]
    if found != count:
        sys.exit(f"Berth gave this job {count} GPUs, and TensorFlow sees {found}")
    return [f"GPU:{index}" for index in range(count)]


def share_evenly(options, replicas):
    """Makes the batches such that all replicas get as many digits of each: Keras cannot begin with uneven shares."""
    options.batch = max(1, options.batch // replicas) * replicas
    options.train -= options.train % options.batch
    options.test -= options.test % options.batch


if __name__ == "__main__":
    options = parse_options(__doc__)
    given = lesson.given_gpus()
    if not given:
        sys.exit("this example trains on GPUs: ask for at least one")
    tf.keras.utils.set_random_seed(1)
    strategy = tf.distribute.MirroredStrategy(devices(len(given)))
    print(f"training {strategy.num_replicas_in_sync} replicas", flush=True)
    share_evenly(options, strategy.num_replicas_in_sync)
    with strategy.scope():
        model = network()
    train_and_test(model, options)
