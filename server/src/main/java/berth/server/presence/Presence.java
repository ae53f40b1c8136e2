package berth.server.presence;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Replicas;
import berth.rpc.Replicas.Replica;
import berth.server.gpu.GpuMonitor;
import berth.server.reservation.Reservations;
import berth.server.run.Runs;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps this server known to a registry, in a thread of its own: registers, reports what changes
 * and that it lives, goes to the next registry when one does not answer, and registers again when
 * it was forgotten. Nothing else of the server waits for it.
 */
public final class Presence implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Presence.class);

  private static final Duration CALL_TIMEOUT = Duration.ofMillis(1500);
  private static final Duration LEAVE_TIMEOUT = Duration.ofSeconds(1);
  // How often the state is looked at; what changed is reported at once.
  private static final Duration LOOK = Duration.ofMillis(200);
  // Shorter than the interval of heartbeats, so that a registry that comes back knows us by then.
  private static final Duration PAUSE_AFTER_FAILURE = Duration.ofMillis(500);
  private static final Duration PAUSE_AFTER_REFUSAL = Duration.ofSeconds(5);
  // After so long without an answer, a registry that was found may have moved.
  private static final Duration FIND_AGAIN = Duration.ofSeconds(6);
  private static final int MAX_MESSAGE = 300;

  /**
   * Where to register, and as what.
   *
   * @param registries finds them; asked again until it returns some, and when none of them answers
   *     any more
   * @param advertised where others find this server, if the administrator says so; port 0 stands
   *     for the one it listens on
   * @param listening where it listens
   * @param info what it says of itself, without address, GPUs and memory
   */
  public record Settings(
      Supplier<List<Address>> registries,
      Optional<Address> advertised,
      Address listening,
      ServerInfo info) {}

  private final Supplier<List<Address>> registries;
  private final AdvertisedAddress advertised;
  private final SelfReport self;
  private final String instance = UUID.randomUUID().toString();
  private final Thread thread = new Thread(this::run, "presence");

  private volatile boolean closed;
  // Of the thread alone.
  private long generation;
  private Optional<Registration> registration = Optional.empty();
  private String lastTrouble = "";

  /** That this server is registered, and what the registry knows of it. */
  private record Registration(
      RegisterResponse terms, Address address, ServerInfo info, ServerStatus status) {
    Registration with(ServerInfo newInfo, ServerStatus newStatus) {
      return new Registration(terms, address, newInfo, newStatus);
    }
  }

  private Presence(Settings settings, SelfReport self) {
    this.registries = settings.registries;
    this.advertised = new AdvertisedAddress(settings.advertised, settings.listening);
    this.self = self;
    thread.setDaemon(true);
  }

  public static Presence start(
      Settings settings, GpuMonitor gpus, Reservations reservations, Runs runs) {
    Presence presence =
        new Presence(settings, new SelfReport(settings.info, gpus, reservations, runs));
    presence.thread.start();
    return presence;
  }

  /**
   * Refuses an address at which nobody at a registry would find a server.
   *
   * @throws BerthException INVALID if so
   */
  public static void checkReachable(
      Optional<Address> advertised, Address listening, List<Address> registries) {
    registries.forEach(new AdvertisedAddress(advertised, listening)::towards);
  }

  /** Leaves the registry, if it answers within a moment. */
  @Override
  public void close() {
    closed = true;
    thread.interrupt();
    try {
      thread.join(LEAVE_TIMEOUT.plus(CALL_TIMEOUT).toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    try {
      while (!closed) {
        List<Address> found = registries.get();
        if (found.isEmpty()) {
          trouble("no registry is found on this network; looking on");
          pause(PAUSE_AFTER_REFUSAL);
        } else {
          try (Replicas replicas = new Replicas("registry", found)) {
            stayWith(replicas);
          }
        }
      }
    } catch (InterruptedException e) {
      // Closed.
    }
  }

  /** Returns when none of them has answered for long. */
  private void stayWith(Replicas replicas) throws InterruptedException {
    Replica replica = replicas.current();
    long lastAnswer = System.nanoTime();
    int failures = 0;
    try {
      while (System.nanoTime() - lastAnswer < FIND_AGAIN.toNanos()) {
        try {
          if (registration.isEmpty()) {
            register(replica);
            lastAnswer = System.nanoTime();
          }
          failures = 0;
          report(replica);
          lastAnswer = System.nanoTime();
        } catch (BerthException e) {
          if (closed) {
            throw new InterruptedException();
          }
          trouble(e.getMessage());
          if (isAnswer(e)) {
            registration = Optional.empty();
            lastAnswer = System.nanoTime();
            pause(PAUSE_AFTER_REFUSAL);
          } else if (++failures % replicas.size() == 0) {
            pause(PAUSE_AFTER_FAILURE);
          }
          replica = replicas.after(replica);
        }
      }
    } finally {
      if (closed && registration.isPresent()) {
        leave(replica);
      }
    }
  }

  // Everything else is a registry that is not there, or not well.
  private static boolean isAnswer(BerthException e) {
    return switch (e.reason()) {
      case INVALID, ALREADY_EXISTS, EXHAUSTED, UNAUTHENTICATED, DENIED, UNSUPPORTED -> true;
      case NOT_FOUND, CONFLICT, UNAVAILABLE, TIMED_OUT, CANCELLED, INTERNAL -> false;
    };
  }

  private void register(Replica replica) {
    Address address = advertised.towards(replica.address());
    ServerInfo info = self.info(address);
    ServerStatus status = self.status();
    RegisterResponse terms =
        PresenceClient.register(
            replica,
            RegisterRequest.newBuilder()
                .setInfo(info)
                .setStatus(status)
                .setInstance(instance)
                .setGeneration(generation)
                .build(),
            CALL_TIMEOUT);
    generation = terms.getGeneration();
    registration = Optional.of(new Registration(terms, address, info, status));
    lastTrouble = "";
    log.info("registered with the {} as {} at {}", replica.peer(), self.name(), address);
  }

  /** Sends heartbeats; returns when this server has to register again. */
  private void report(Replica replica) throws InterruptedException {
    try (PresenceClient.Heartbeats heartbeats = PresenceClient.heartbeats(replica)) {
      // At once: another registry may have had the last one.
      boolean due = true;
      long lastBeat = System.nanoTime();
      while (true) {
        Registration known = registration.get();
        ServerInfo info = self.info(known.address);
        ServerStatus status = self.status();
        boolean changed = !info.equals(known.info) || !status.equals(known.status);
        if (due || changed) {
          HeartbeatResponse answer = heartbeats.beat(heartbeat(known, info, status), CALL_TIMEOUT);
          if (!answer.getKnown()) {
            registration = Optional.empty();
            if (answer.hasReplacedBy()) {
              trouble(
                  "a newer server is registered in place of this one: " + answer.getReplacedBy());
              pause(PAUSE_AFTER_REFUSAL);
            }
            return;
          }
          registration = Optional.of(known.with(info, status));
          if (!lastTrouble.isEmpty()) {
            log.info("the {} answers", replica.peer());
            lastTrouble = "";
          }
          lastBeat = System.nanoTime();
        }
        pause(LOOK);
        Duration interval = Messages.duration(known.terms.getHeartbeatInterval());
        due = System.nanoTime() - lastBeat + LOOK.toNanos() > interval.toNanos();
      }
    }
  }

  private HeartbeatRequest heartbeat(Registration known, ServerInfo info, ServerStatus status) {
    HeartbeatRequest.Builder request =
        HeartbeatRequest.newBuilder()
            .setName(self.name())
            .setInstance(instance)
            .setLeaseId(known.terms.getLeaseId());
    if (!info.equals(known.info)) {
      request.setInfo(info);
    }
    if (!status.equals(known.status)) {
      request.setStatus(status);
    }
    return request.build();
  }

  private void leave(Replica replica) {
    // The interrupt that ended the heartbeats would end this call too.
    boolean interrupted = Thread.interrupted();
    try {
      PresenceClient.deregister(replica, self.name(), instance, LEAVE_TIMEOUT);
    } catch (BerthException e) {
      log.info("left without a word to the registry, which will notice: {}", e.getMessage());
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  // Once, however often it happens in a row.
  private void trouble(String what) {
    String message = what.length() <= MAX_MESSAGE ? what : what.substring(0, MAX_MESSAGE);
    if (!message.equals(lastTrouble)) {
      log.warn("{}; this server goes on without, and tries again", message);
      lastTrouble = message;
    }
  }

  private static void pause(Duration time) throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(time.toNanos());
  }
}
