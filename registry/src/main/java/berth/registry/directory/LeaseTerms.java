package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.HeartbeatRequest;
import berth.v1.RegisterResponse;
import berth.v1.Server;
import java.time.Duration;
import java.util.Optional;

/**
 * On which terms servers are known.
 *
 * @param lease how long without a heartbeat: at least a second
 * @param maxServers how many
 */
public record LeaseTerms(Duration lease, int maxServers) {
  public LeaseTerms {
    if (lease.compareTo(Duration.ofSeconds(1)) < 0) {
      throw new BerthException(Reason.INVALID, "a lease must be at least 1s");
    }
  }

  /** Two heartbeats may get lost, almost. */
  Duration heartbeatInterval() {
    return lease.multipliedBy(2).dividedBy(5);
  }

  RegisterResponse response(String leaseId, long generation) {
    return RegisterResponse.newBuilder()
        .setLeaseId(leaseId)
        .setLease(Messages.duration(lease))
        .setHeartbeatInterval(Messages.duration(heartbeatInterval()))
        .setGeneration(generation)
        .build();
  }

  /** A server as a heartbeat says that it is now, if that is new; its address stays. */
  static Optional<Server> changed(Server server, HeartbeatRequest heartbeat) {
    if (!heartbeat.hasInfo() && !heartbeat.hasStatus() || isLate(heartbeat.getSequence(), server)) {
      return Optional.empty();
    }
    Server.Builder changed = server.toBuilder();
    if (heartbeat.getSequence() != 0) {
      changed.setSequence(heartbeat.getSequence());
    }
    if (heartbeat.hasInfo()) {
      changed.setInfo(heartbeat.getInfo().toBuilder().setAddress(server.getInfo().getAddress()));
    }
    if (heartbeat.hasStatus()) {
      changed.setStatus(heartbeat.getStatus());
    }
    return Optional.of(changed.build()).filter(now -> !now.equals(server));
  }

  /** Whether something with this number was said before what is known of a server. */
  static boolean isLate(long sequence, Server server) {
    return sequence != 0 && sequence < server.getSequence();
  }
}
