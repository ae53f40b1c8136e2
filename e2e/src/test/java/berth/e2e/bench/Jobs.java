package berth.e2e.bench;

/** One of the two ways to run programs that are compared. Any thread may call. */
interface Jobs extends AutoCloseable {
  /**
   * Runs a job to its end, and reads its output.
   *
   * @throws IllegalStateException if it failed
   */
  Job.Outcome run(Job job);

  @Override
  void close();
}
