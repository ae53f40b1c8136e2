package berth.client.call;

/**
 * A place at the front of the line of those who want to reserve on several servers at once, held
 * until it is closed. Any thread may call.
 *
 * <p>It keeps others who stand in line from asking the same servers meanwhile, and promises nothing
 * else: the servers grant what they grant.
 */
public interface Turn extends AutoCloseable {
  /**
   * Whether it is still this caller's turn: false once it is closed, or the connection to the
   * registry is lost, after which others may have theirs.
   */
  boolean held();

  /** Leaves the line. A second time is harmless. */
  @Override
  void close();
}
