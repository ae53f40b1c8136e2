package berth.registry.directory;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.common.exception.ErrorCode;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.common.exception.EtcdExceptionFactory;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Connections to the members of an etcd cluster, one each: calls go to the member that answered
 * last, and to the next one when that does not answer. Any thread may call.
 *
 * <p>jetcd alone would spread calls over all members, and so give a third of them to one that
 * hangs, until gRPC notices that after ten seconds and more.
 */
final class EtcdMembers implements AutoCloseable {
  // Another member would say the same.
  private static final Set<ErrorCode> REFUSALS =
      EnumSet.of(
          ErrorCode.RESOURCE_EXHAUSTED,
          ErrorCode.INVALID_ARGUMENT,
          ErrorCode.FAILED_PRECONDITION,
          ErrorCode.PERMISSION_DENIED,
          ErrorCode.UNAUTHENTICATED);
  private static final Logger log = LoggerFactory.getLogger(EtcdMembers.class);

  private static final int DEFAULT_PORT = 2379;
  // Pages of servers; see EtcdFeed.
  private static final int MAX_MESSAGE_BYTES = 64 << 20;
  // Short at first, to be soon at a member that answers; then as long as a slow one may need.
  private static final Duration FIRST_ATTEMPT = Duration.ofMillis(500);
  private static final Duration ATTEMPT = Duration.ofSeconds(1);
  // An election takes up to two seconds.
  private static final Duration PATIENCE = Duration.ofSeconds(4);
  private static final Duration PAUSE_BETWEEN_ROUNDS = Duration.ofMillis(100);
  private static final Duration RENEW_SILENT = Duration.ofSeconds(2);
  // More often gRPC does not, and etcd refuses from five seconds on.
  private static final Duration KEEP_ALIVE = Duration.ofSeconds(10);
  private static final Duration KEEP_ALIVE_TIMEOUT = Duration.ofSeconds(2);

  private static final class Member {
    private final Address address;
    private Client client;
    private long heard = System.nanoTime();

    Member(Address address) {
      this.address = address;
      this.client = connect(address);
    }
  }

  private final List<Member> members;
  private int current;
  // Why nobody answers; null if somebody does. Who calls meanwhile does not wait.
  private volatile String outage;
  private volatile boolean closed;

  /**
   * @param endpoints as {@code http://HOST:PORT} or {@code HOST:PORT}
   * @throws BerthException INVALID if one of them is something else
   */
  EtcdMembers(List<String> endpoints) {
    if (endpoints.isEmpty()) {
      throw new BerthException(Reason.INVALID, "no etcd endpoint given");
    }
    members = endpoints.stream().map(EtcdMembers::parse).map(Member::new).toList();
  }

  /** The member that answered last. */
  synchronized Client current() {
    return members.get(current).client;
  }

  /**
   * Makes a call that may be repeated, and waits for its answer.
   *
   * @throws EtcdException NOT_FOUND and OUT_OF_RANGE, which are answers too
   * @throws BerthException UNAVAILABLE if a member refuses it, for example because etcd is full; if
   *     no member answers: after a few seconds; or at once, if that was so before and nobody was
   *     heard since
   */
  <T> T call(Function<Client, CompletableFuture<T>> call) {
    String known = outage;
    if (known != null) {
      throw unavailable(known);
    }
    return callThough(call);
  }

  /** The same, also if nobody answered before. */
  <T> T callThough(Function<Client, CompletableFuture<T>> call) {
    long start = System.nanoTime();
    for (int attempt = 1; ; attempt++) {
      Member member;
      Client client;
      synchronized (this) {
        member = members.get(current);
        client = member.client;
      }
      try {
        T answer = attempt(call, client, attempt <= 2 * members.size() ? FIRST_ATTEMPT : ATTEMPT);
        heardOf(member);
        return answer;
      } catch (EtcdException e) {
        if (e.getErrorCode() == ErrorCode.NOT_FOUND || e.getErrorCode() == ErrorCode.OUT_OF_RANGE) {
          heardOf(member);
          throw e;
        }
        if (REFUSALS.contains(e.getErrorCode())) {
          heardOf(member);
          throw unavailable("etcd at " + member.address + " refuses: " + reason(e));
        }
        leave(member, client);
        if (closed || System.nanoTime() - start > PATIENCE.toNanos()) {
          outage = "etcd at " + member.address + " does not answer: " + reason(e);
          throw unavailable(outage);
        }
        log.debug("etcd at {} does not answer", member.address, e);
      }
      if (attempt % members.size() == 0) {
        pause();
      }
    }
  }

  @Override
  public synchronized void close() {
    closed = true;
    members.forEach(member -> member.client.close());
  }

  private synchronized void heardOf(Member member) {
    member.heard = System.nanoTime();
    outage = null;
  }

  // A connection that broke would be made again only after pauses that grow to minutes, and one
  // that hangs would hang for as long: so it is replaced by a new one.
  private synchronized void leave(Member member, Client failed) {
    if (members.get(current) == member) {
      current = (current + 1) % members.size();
    }
    long now = System.nanoTime();
    if (!closed && member.client == failed && now - member.heard > RENEW_SILENT.toNanos()) {
      member.heard = now;
      member.client = connect(member.address);
      failed.close();
    }
  }

  private static <T> T attempt(
      Function<Client, CompletableFuture<T>> call, Client client, Duration timeout) {
    CompletableFuture<T> answer;
    try {
      answer = call.apply(client);
    } catch (RuntimeException e) {
      // It has just been replaced.
      throw EtcdExceptionFactory.toEtcdException(e);
    }
    try {
      return answer.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      throw EtcdExceptionFactory.toEtcdException(e.getCause());
    } catch (TimeoutException e) {
      throw EtcdExceptionFactory.newEtcdException(
          ErrorCode.DEADLINE_EXCEEDED, "no answer for " + timeout.toMillis() + " ms");
    } catch (InterruptedException e) {
      throw interrupted();
    }
  }

  private static void pause() {
    try {
      TimeUnit.NANOSECONDS.sleep(PAUSE_BETWEEN_ROUNDS.toNanos());
    } catch (InterruptedException e) {
      throw interrupted();
    }
  }

  private static BerthException interrupted() {
    Thread.currentThread().interrupt();
    return new BerthException(Reason.UNAVAILABLE, "this registry is stopping");
  }

  private static BerthException unavailable(String outage) {
    return new BerthException(Reason.UNAVAILABLE, "etcd is unavailable: " + outage);
  }

  private static String reason(Throwable failure) {
    Throwable root = failure;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root.getMessage() == null ? root.getClass().getSimpleName() : root.getMessage();
  }

  private static Client connect(Address address) {
    return Client.builder()
        .target("dns:///" + address)
        .loadBalancerPolicy("pick_first")
        .waitForReady(false)
        .retryMaxAttempts(0)
        .connectTimeout(ATTEMPT)
        .keepaliveTime(KEEP_ALIVE)
        .keepaliveTimeout(KEEP_ALIVE_TIMEOUT)
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .build();
  }

  private static Address parse(String endpoint) {
    String text = endpoint.trim();
    if (text.startsWith("https://")) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "': TLS to etcd is not supported, use http://HOST:PORT");
    }
    String address = text.replaceFirst("^http://", "").replaceFirst("/$", "");
    return Address.parse(address, DEFAULT_PORT);
  }
}
