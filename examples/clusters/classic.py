"""Learns a line as programs for TensorFlow 1 do it: flags say which tasks there are, and which of them this one is."""

import sys
import time

import tensorflow.compat.v1 as tf

TRUE_WEIGHTS = [[2.0], [-3.0], [0.5], [1.0]]
TRUE_BIAS = 4.0

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", None, "HOST:PORT of the parameter servers, separated by commas", required=True)
flags.DEFINE_string("worker_hosts", None, "HOST:PORT of the workers, separated by commas", required=True)
flags.DEFINE_string("job_name", None, "ps or worker", required=True)
flags.DEFINE_integer("task_index", None, "which of them", required=True)
flags.DEFINE_integer("steps", 200, "how long to learn, all workers together")
options = flags.FLAGS


def learn(server, cluster):
    worker = f"/job:worker/task:{options.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        inputs = tf.random.normal([32, len(TRUE_WEIGHTS)])
        noise = 0.05 * tf.random.normal([32, 1])
        weights = tf.get_variable("weights", [len(TRUE_WEIGHTS), 1])
        bias = tf.get_variable("bias", [])
        truth = inputs @ TRUE_WEIGHTS + TRUE_BIAS + noise
        loss = tf.reduce_mean(tf.square(inputs @ weights + bias - truth))
        steps = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=steps)

    # A worker that can go on when another one has ended, or is not there yet.
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    is_chief = options.task_index == 0
    if not is_chief:
        # MonitoredTrainingSession would look again only after 30 seconds.
        unprepared = tf.report_uninitialized_variables()
        with tf.Session(server.target, config=config) as session:
            while session.run(unprepared).size > 0:
                time.sleep(0.2)
    last = float("inf")
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief, config=config, hooks=[tf.train.StopAtStepHook(last_step=options.steps)]
    ) as session:
        while not session.should_stop():
            _, last = session.run([train, loss])
    return last


def main(_):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.WARN)
    cluster = tf.train.ClusterSpec({"ps": options.ps_hosts.split(","), "worker": options.worker_hosts.split(",")})
    server = tf.train.Server(cluster, options.job_name, options.task_index)
    if options.job_name == "ps":
        server.join()
    loss = learn(server, cluster)
    print(f"loss {loss:.4f} at worker {options.task_index}", flush=True)
    if not loss < 0.01:
        sys.exit(f"it has not learned: the loss {loss:.4f} is not below 0.01")


tf.app.run(main)
