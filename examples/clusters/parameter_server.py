"""Learns a line with parameter servers: the chief hands out steps, workers compute them, ps tasks keep the variables.

Knows its place from TF_CONFIG alone. Tasks `ps` and `worker` serve until they are stopped. A task `evaluator` reads the
checkpoints of the chief in --model-dir, as they come, until it has seen the last one.
"""

import argparse
import sys

import tensorflow as tf

TRUE_WEIGHTS = [[2.0], [-3.0], [0.5], [1.0]]
TRUE_BIAS = 4.0
STEPS = 50  # of an epoch, after each of which there is a checkpoint


def examples(seed):
    """Batches without end."""

    def batch(number):
        inputs = tf.random.stateless_normal([32, len(TRUE_WEIGHTS)], [seed, number])
        noise = 0.05 * tf.random.stateless_normal([32, 1], [number, seed])
        return inputs, inputs @ TRUE_WEIGHTS + TRUE_BIAS + noise

    return tf.data.Dataset.counter().map(lambda number: batch(tf.cast(number, tf.int32)))


class Line:
    """What is learned."""

    def __init__(self):
        self.weights = tf.Variable(tf.zeros([len(TRUE_WEIGHTS), 1]))
        self.bias = tf.Variable(0.0)
        self.epoch = tf.Variable(0)
        self.checkpoint = tf.train.Checkpoint(weights=self.weights, bias=self.bias, epoch=self.epoch)

    def loss(self, inputs, outputs):
        return tf.reduce_mean(tf.square(inputs @ self.weights + self.bias - outputs))


def serve(cluster):
    server = tf.distribute.Server(cluster.cluster_spec(), cluster.task_type, cluster.task_id, protocol="grpc")
    print(f"{cluster.task_type} {cluster.task_id} serves at {cluster.master()}", flush=True)
    server.join()


def coordinate(cluster, options):
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        line = Line()
    # Else each parameter server would write its variables to a disk of its own.
    here = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    saved = tf.train.CheckpointManager(line.checkpoint, options.model_dir, max_to_keep=None)
    if saved.latest_checkpoint:
        line.checkpoint.restore(saved.latest_checkpoint, here)
        print(f"goes on from {saved.latest_checkpoint}", flush=True)

    @tf.function
    def step(batches):
        with tf.GradientTape() as tape:
            loss = line.loss(*next(batches))
        weights, bias = tape.gradient(loss, [line.weights, line.bias])
        line.weights.assign_sub(0.02 * weights)
        line.bias.assign_sub(0.02 * bias)

    batches = iter(coordinator.create_per_worker_dataset(lambda: examples(seed=1)))
    while line.epoch.numpy() < options.epochs:
        for _ in range(STEPS):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        line.epoch.assign_add(1)
        saved.save(checkpoint_number=line.epoch.numpy(), options=here)
    check(line)


def evaluate(options):
    line = Line()
    print(f"evaluator waits for checkpoints in {options.model_dir}", flush=True)
    for path in tf.train.checkpoints_iterator(options.model_dir):
        line.checkpoint.restore(path)
        print(f"evaluated loss {test_loss(line):.4f} after {line.epoch.numpy()} epochs", flush=True)
        if line.epoch.numpy() >= options.epochs:
            break


def test_loss(line):
    inputs, outputs = next(iter(examples(seed=2)))
    return line.loss(inputs, outputs).numpy()


def check(line):
    loss = test_loss(line)
    print(f"loss {loss:.4f} after {line.epoch.numpy()} epochs", flush=True)
    if not loss < 0.01:
        sys.exit(f"it has not learned: the loss {loss:.4f} is not below 0.01")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", required=True, metavar="DIR", help="for checkpoints")
    parser.add_argument("--epochs", type=int, default=4, metavar="N", help="how long to learn (default: 4)")
    options = parser.parse_args()
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("ps", "worker"):
        serve(cluster)
    elif cluster.task_type == "evaluator":
        evaluate(options)
    else:
        coordinate(cluster, options)


main()
