package berth.rpc;

import io.grpc.Channel;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Connections to servers that are equal, so that any of them will do: one that does not answer is
 * left for the next. Any thread may use it.
 */
public final class Replicas implements AutoCloseable {
  private static final Duration PAUSE_BETWEEN_ROUNDS = Duration.ofMillis(100);

  /**
   * A connection to one of them.
   *
   * @param peer who that is, for messages, such as {@code registry at 10.0.0.7:18811}
   */
  public record Replica(Address address, String peer, RpcChannel connection) {
    public Channel channel() {
      return connection.channel();
    }
  }

  private final List<Replica> replicas = new ArrayList<>();
  private int current;

  /**
   * @param what they are, such as {@code registry}
   * @param addresses at least one
   */
  public Replicas(String what, List<Address> addresses) {
    for (Address address : addresses) {
      replicas.add(new Replica(address, what + " at " + address, RpcChannel.to(address)));
    }
  }

  public int size() {
    return replicas.size();
  }

  /** The one that answered last. */
  public synchronized Replica current() {
    return replicas.get(current);
  }

  /**
   * All of them, in an order that is the same for everyone who knows them by the same addresses.
   */
  public List<Replica> inOrder() {
    return replicas.stream().sorted(Comparator.comparing(r -> r.address.toString())).toList();
  }

  /** Leaves {@code failed} for the next, unless somebody did so already, and returns that. */
  public synchronized Replica after(Replica failed) {
    if (replicas.get(current).equals(failed)) {
      current = (current + 1) % replicas.size();
    }
    Replica next = replicas.get(current);
    next.connection.connectNow();
    return next;
  }

  /**
   * Makes a call that may be repeated.
   *
   * @param call makes it over a channel, with a deadline of its own
   * @param patience how long to go on trying while none of them answers; each is tried once at
   *     least
   * @throws BerthException what the last one answered, or why it did not
   */
  public <T> T call(Duration patience, Function<Channel, T> call) {
    long start = System.nanoTime();
    Replica replica = current();
    for (int attempt = 1; ; attempt++) {
      try {
        return call.apply(replica.channel());
      } catch (StatusRuntimeException e) {
        BerthException failure = Statuses.fromStatus(e, replica.peer);
        boolean mayHelp =
            failure.reason() == Reason.UNAVAILABLE || failure.reason() == Reason.TIMED_OUT;
        boolean wholeRound = attempt % replicas.size() == 0;
        boolean late = System.nanoTime() - start > patience.toNanos();
        if (!mayHelp || wholeRound && late) {
          throw failure;
        }
        if (wholeRound) {
          pause(failure);
        }
        replica = after(replica);
      }
    }
  }

  @Override
  public void close() {
    replicas.forEach(replica -> replica.connection.close());
  }

  private static void pause(BerthException failure) {
    try {
      TimeUnit.NANOSECONDS.sleep(PAUSE_BETWEEN_ROUNDS.toNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw failure;
    }
  }
}
