"""Teaches a small convolutional network of Keras to read digits."""

import argparse

import lesson
import tensorflow as tf

from digits import SIZE, digits


def network():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((SIZE, SIZE, 1)),
            layers.Conv2D(16, 5, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.002), loss, metrics=["accuracy"])
    return model


def train_and_test(model, options):
    """The whole lesson: some epochs of training, then an exam with digits that the network has never seen."""
    images, labels = digits(options.train, seed=1)
    if options.epochs > 0:
        model.fit(images[..., None], labels, batch_size=options.batch, epochs=options.epochs, verbose=2)
    images, labels = digits(options.test, seed=2)
    _, accuracy = model.evaluate(images[..., None], labels, batch_size=options.batch, verbose=0)
    lesson.check(accuracy, options.floor, options.test)


def parse_options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="how often to go through the digits")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="digits for each step")
    parser.add_argument("--train", type=int, default=6000, metavar="N", help="digits to learn from")
    parser.add_argument("--test", type=int, default=1000, metavar="N", help="digits of the exam")
    parser.add_argument("--floor", type=float, default=0.9, metavar="SHARE", help="fail below this accuracy")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse_options(__doc__)
    lesson.given_gpus()
    if not tf.config.list_physical_devices("GPU"):
        print("TensorFlow sees no GPU here and trains on the CPU")
    tf.keras.utils.set_random_seed(1)
    train_and_test(network(), options)
