package berth.e2e.bench;

/** One of the two ways to reserve GPUs that are compared. */
interface Side {
  /**
   * Lets {@code clients} loop for {@code seconds}: reserve one GPU, hold it for a random time of
   * {@code holdMillis} in the mean, release it.
   */
  Throughput loop(int clients, int holdMillis, int seconds);

  /**
   * Has one client hold all GPUs while another waits for one, again and again; the nanoseconds from
   * the call that releases to the grant.
   */
  long[] handOvers(int times);
}
