package berth.registry.directory;

import berth.rpc.BerthException;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;

/**
 * Where servers make themselves known, each under a lease. Any thread may call; a call may wait for
 * the store, for a few seconds at most.
 */
public interface Directory extends AutoCloseable {
  /**
   * Makes a server known, or replaces what is known of it.
   *
   * @param request a request that passed {@link ServerRules}
   * @throws BerthException ALREADY_EXISTS if a newer server has its name or its address, EXHAUSTED
   *     if too many are known, UNAVAILABLE if the store does not answer
   */
  RegisterResponse register(RegisterRequest request);

  /**
   * Prolongs a lease, and takes note of what changed.
   *
   * @throws BerthException UNAVAILABLE if the store does not answer; the lease may have been
   *     prolonged all the same
   */
  HeartbeatResponse heartbeat(HeartbeatRequest request);

  /** Makes a server unknown, if it is still the same process that is known under its name. */
  void deregister(String name, String instance);

  /**
   * Who is known, always the same one. It answers also while the store does not.
   *
   * @throws BerthException UNAVAILABLE as long as the store has never answered
   */
  Roster roster();

  @Override
  void close();
}
