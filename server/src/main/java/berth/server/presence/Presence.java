package berth.server.presence;

import berth.host.gpu.GpuMonitor;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.Replicas;
import berth.rpc.Replicas.Replica;
import berth.rpc.Vitals;
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
  private static final Duration SHORTEST_INTERVAL = Duration.ofMillis(100);
  private static final Duration LONGEST_INTERVAL = Duration.ofMinutes(1);
  private static final Duration LEAVE_TIMEOUT = Duration.ofSeconds(1);
  // How often the state is looked at; what changed is reported at once.
  private static final Duration LOOK = Duration.ofMillis(200);
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

  /**
   * How long it waits before it tries again.
   *
   * @param afterFailure shorter than the interval of heartbeats, so that a registry that comes back
   *     knows this server by then
   * @param afterRefusal after an answer that will hardly be another one soon
   * @param findAgain after so long without an answer, a registry that was found may have moved
   */
  record Pauses(Duration afterFailure, Duration afterRefusal, Duration findAgain) {
    static final Pauses USUAL =
        new Pauses(Duration.ofMillis(500), Duration.ofSeconds(5), Duration.ofSeconds(6));
  }

  private final Supplier<List<Address>> registries;
  private final Pauses pauses;
  private final AdvertisedAddress advertised;
  private final SelfReport self;
  private final PresenceMetrics metrics;
  private final String instance = UUID.randomUUID().toString();
  private final Thread thread;

  private volatile boolean closed;
  // Of the thread alone.
  private boolean foundBefore;
  private long generation;
  private long sequence;
  private Optional<Registration> registration = Optional.empty();
  private String lastTrouble = "";

  /**
   * On which terms this server is registered.
   *
   * @param timeout how long to wait for the answer to a heartbeat: short enough that one that is
   *     lost can be made good at another registry
   */
  private record Terms(String leaseId, Duration interval, Duration timeout) {
    static Terms of(RegisterResponse answer) {
      // A registry that was found may be anybody's.
      Duration interval =
          within(SHORTEST_INTERVAL, answer.getHeartbeatInterval(), LONGEST_INTERVAL);
      Duration lease = within(interval, answer.getLease(), LONGEST_INTERVAL.multipliedBy(2));
      Duration spare = lease.minus(interval).dividedBy(2);
      return new Terms(
          answer.getLeaseId(),
          interval,
          spare.compareTo(SHORTEST_INTERVAL) < 0
              ? SHORTEST_INTERVAL
              : spare.compareTo(CALL_TIMEOUT) < 0 ? spare : CALL_TIMEOUT);
    }

    private static Duration within(
        Duration least, com.google.protobuf.Duration said, Duration most) {
      Duration asked = Messages.duration(said);
      return asked.compareTo(least) < 0 ? least : asked.compareTo(most) > 0 ? most : asked;
    }
  }

  /** That this server is registered, and what the registry knows of it. */
  private record Registration(Terms terms, Address address, ServerInfo info, ServerStatus status) {
    Registration with(ServerInfo newInfo, ServerStatus newStatus) {
      return new Registration(terms, address, newInfo, newStatus);
    }
  }

  private Presence(
      Settings settings, Pauses pauses, SelfReport self, Vitals vitals, Metrics metrics) {
    this.registries = settings.registries;
    this.pauses = pauses;
    this.advertised = new AdvertisedAddress(settings.advertised, settings.listening);
    this.self = self;
    this.metrics = new PresenceMetrics(metrics);
    thread = vitals.start("presence", this::findAndStay);
  }

  public static Presence start(
      Settings settings,
      GpuMonitor gpus,
      Reservations reservations,
      Runs runs,
      Vitals vitals,
      Metrics metrics) {
    return start(
        settings,
        Pauses.USUAL,
        MachineMemory.ofThisMachine(),
        gpus,
        reservations,
        runs,
        vitals,
        metrics);
  }

  static Presence start(
      Settings settings,
      Pauses pauses,
      MachineMemory memory,
      GpuMonitor gpus,
      Reservations reservations,
      Runs runs,
      Vitals vitals,
      Metrics metrics) {
    Presence presence =
        new Presence(
            settings,
            pauses,
            new SelfReport(settings.info, memory, gpus, reservations, runs, vitals),
            vitals,
            metrics);
    return presence;
  }

  /**
   * Refuses an address at which surely nobody at a registry would find a server. What cannot be
   * known yet, for want of a network or its names, is for later.
   *
   * @throws BerthException INVALID if so
   */
  public static void checkReachable(
      Optional<Address> advertised, Address listening, List<Address> registries) {
    Address own = advertised.orElse(listening);
    boolean everywhere = advertised.isEmpty() && listening.resolve().isAnyLocalAddress();
    for (Address registry : registries) {
      if (!everywhere && own.leadsNowhereElse() && registry.isElsewhere()) {
        new AdvertisedAddress(advertised, listening).towards(registry);
      }
    }
  }

  /** Leaves the registry, if it answers within a moment. */
  @Override
  public void close() {
    closed = true;
    thread.interrupt();
    self.close();
    try {
      thread.join(LEAVE_TIMEOUT.plus(CALL_TIMEOUT).toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private boolean findAndStay() throws InterruptedException {
    try {
      List<Address> found = registries.get();
      if (found.isEmpty()) {
        trouble("no registry found on this network");
        pause(foundBefore ? pauses.afterFailure : pauses.afterRefusal);
      } else {
        foundBefore = true;
        try (Replicas replicas = new Replicas("registry", found)) {
          stayWith(replicas);
        }
      }
    } catch (RuntimeException | Error e) {
      // Whatever it was, a server that nobody finds until it is restarted would be worse.
      if (!closed) {
        log.error("the registration failed unexpectedly; trying again", e);
        pause(pauses.afterRefusal);
      }
    }
    return !closed;
  }

  /** Returns when none of them has answered for long. */
  private void stayWith(Replicas replicas) throws InterruptedException {
    Replica replica = replicas.current();
    long lastAnswer = System.nanoTime();
    int failures = 0;
    try {
      while (failures < replicas.size()
          || System.nanoTime() - lastAnswer < pauses.findAgain.toNanos()) {
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
          if (e.reason() == Reason.INVALID) {
            // Perhaps its number, which another registry gave it: this one gives it a new one.
            generation = 0;
          }
          if (isAnswer(e)) {
            registration = Optional.empty();
            lastAnswer = System.nanoTime();
            pause(pauses.afterRefusal);
          } else if (++failures % replicas.size() == 0) {
            pause(pauses.afterFailure);
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
    RegisterResponse answer =
        PresenceClient.register(
            replica,
            RegisterRequest.newBuilder()
                .setInfo(info)
                .setStatus(status)
                .setInstance(instance)
                .setGeneration(generation)
                .setSequence(++sequence)
                .build(),
            CALL_TIMEOUT);
    generation = answer.getGeneration();
    registration = Optional.of(new Registration(Terms.of(answer), address, info, status));
    lastTrouble = "";
    metrics.registered();
    log.info("registered with the {} as {} at {}", replica.peer(), self.name(), address);
  }

  /** Sends heartbeats; returns when this server has to register again. */
  private void report(Replica replica) throws InterruptedException {
    try (PresenceClient.Heartbeats heartbeats = PresenceClient.heartbeats(replica)) {
      // At once, and whole: another registry may have had the last one, or only half of it.
      boolean due = true;
      boolean first = true;
      long lastBeat = System.nanoTime();
      while (true) {
        Registration known = registration.get();
        ServerInfo info = self.info(known.address);
        ServerStatus status = self.status();
        boolean newInfo = first || !info.equals(known.info);
        boolean newStatus = first || !status.equals(known.status);
        if (due || newInfo || newStatus) {
          HeartbeatRequest.Builder beat = heartbeat(known.terms);
          if (newInfo) {
            beat.setInfo(info);
          }
          if (newStatus) {
            beat.setStatus(status);
          }
          HeartbeatResponse answer = beat(heartbeats, beat.build(), known.terms.timeout);
          if (!answer.getKnown()) {
            metrics.leaseLost(answer.hasReplacedBy());
            registration = Optional.empty();
            if (answer.hasReplacedBy()) {
              trouble(
                  "a newer server is registered in place of this one: " + answer.getReplacedBy());
              pause(pauses.afterRefusal);
            }
            return;
          }
          first = false;
          registration = Optional.of(known.with(info, status));
          if (!lastTrouble.isEmpty()) {
            log.info("the {} answers again", replica.peer());
            lastTrouble = "";
          }
          lastBeat = System.nanoTime();
        }
        pause(LOOK);
        due = System.nanoTime() - lastBeat + LOOK.toNanos() > known.terms.interval.toNanos();
      }
    }
  }

  private HeartbeatResponse beat(
      PresenceClient.Heartbeats heartbeats, HeartbeatRequest request, Duration timeout)
      throws InterruptedException {
    HeartbeatResponse answer;
    try {
      answer = heartbeats.beat(request, timeout);
    } catch (BerthException e) {
      metrics.heartbeatFailed();
      throw e;
    }
    metrics.heartbeatAnswered();
    return answer;
  }

  private HeartbeatRequest.Builder heartbeat(Terms terms) {
    return HeartbeatRequest.newBuilder()
        .setName(self.name())
        .setInstance(instance)
        .setLeaseId(terms.leaseId)
        .setSequence(++sequence);
  }

  private void leave(Replica replica) {
    // The interrupt that ended the heartbeats would end this call too.
    boolean interrupted = Thread.interrupted();
    try {
      PresenceClient.deregister(replica, self.name(), instance, LEAVE_TIMEOUT);
    } catch (BerthException e) {
      log.info(
          "cannot deregister; the registry removes this server when its lease ends: {}",
          e.getMessage());
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  // Once, however often it happens in a row.
  private void trouble(String what) {
    metrics.away();
    // A registry's own words may be anything.
    String clean = what.replaceAll("\\p{Cntrl}", "?");
    String message = clean.length() <= MAX_MESSAGE ? clean : clean.substring(0, MAX_MESSAGE);
    if (!message.equals(lastTrouble)) {
      log.warn("{}; continuing without a registry, retrying", message);
      lastTrouble = message;
    }
  }

  private static void pause(Duration time) throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(time.toNanos());
  }
}
