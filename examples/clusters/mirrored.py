"""Learns a line on several workers that keep equal copies of all variables: MultiWorkerMirroredStrategy.

Knows its place from TF_CONFIG alone.
"""

import argparse
import sys

import tensorflow as tf

TRUE_WEIGHTS = [[2.0], [-3.0], [0.5], [1.0]]
TRUE_BIAS = 4.0


def examples(context):
    """Batches without end, other ones for each worker."""
    batches = tf.data.Dataset.random(seed=context.input_pipeline_id + 1)

    def batch(number):
        inputs = tf.random.stateless_normal([32, len(TRUE_WEIGHTS)], [number, 0])
        noise = 0.05 * tf.random.stateless_normal([32, 1], [number, 1])
        return inputs, inputs @ TRUE_WEIGHTS + TRUE_BIAS + noise

    return batches.map(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="how long to learn (default: 100)")
    options = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        mean = tf.VariableAggregation.MEAN
        weights = tf.Variable(tf.zeros([len(TRUE_WEIGHTS), 1]), aggregation=mean)
        bias = tf.Variable(0.0, aggregation=mean)

    def learn(inputs, outputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(inputs @ weights + bias - outputs))
        # Each worker computes a step of its own; what is taken is the mean of all.
        for variable, gradient in zip([weights, bias], tape.gradient(loss, [weights, bias])):
            variable.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def step(batches):
        losses = strategy.run(learn, args=next(batches))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    batches = iter(strategy.distribute_datasets_from_function(examples))
    loss = float("inf")
    for _ in range(options.steps):
        loss = step(batches).numpy()
    print(f"loss {loss:.4f} on {strategy.num_replicas_in_sync} replicas", flush=True)
    if not loss < 0.01:
        sys.exit(f"it has not learned: the loss {loss:.4f} is not below 0.01")


main()
