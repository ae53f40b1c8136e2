package berth.e2e.reservations;

import berth.client.call.ReservationClient;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Python;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.Lifetime;
import berth.v1.Reservation;
import berth.v1.ReserveRequest;
import berth.v1.ReservedGpu;
import berth.v1.WaitTime;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Everyone who fights for the GPUs of one machine, in the four ways there are, and those who get
 * killed meanwhile.
 */
final class Contest {
  static final int GPUS = 4;

  private static final Duration PATIENCE = Duration.ofSeconds(15);
  private static final Duration LEASE = Duration.ofMinutes(5);

  // As long as it takes to start a daemon again.
  private static final int LONG_MILLIS = 1000;

  private final Path folder;
  private final Path locks;
  private final Referee referee;
  private final CountDownLatch stop = new CountDownLatch(1);
  private final Map<Kind, Integer> kills = new ConcurrentHashMap<>();
  private final Semaphore shortUses = new Semaphore(0);
  private final Semaphore longUses = new Semaphore(0);
  private volatile int restarts;

  /**
   * @param locks the folder with the lock files
   */
  Contest(Path folder, Path locks, Referee referee) {
    this.folder = folder;
    this.locks = locks;
    this.referee = referee;
  }

  /** Ends every contender after what it is doing. */
  void stop() {
    stop.countDown();
  }

  int kills(Kind kind) {
    return kills.getOrDefault(kind, 0);
  }

  /** How often the daemon was killed and started again. */
  int restarts() {
    return restarts;
  }

  /** Takes GPUs with leases of a daemon, and frees them after an instant. */
  Callable<Void> leases(String name, ReservationClient client, Random random) {
    return untilStopped(
        () -> {
          long asked = System.nanoTime();
          Optional<Reservation> granted = lease(client, random);
          if (granted.isPresent()) {
            Referee.Use use = referee.enter(name, indices(granted.get()), asked);
            pause(random, 3);
            use.close();
            client.release(granted.get().getReservationId(), PATIENCE);
          }
        });
  }

  /** Some don't like to wait, and so leave the line at every possible moment. */
  private Optional<Reservation> lease(ReservationClient client, Random random) {
    ReserveRequest.Builder request = request(random);
    request.setLifetime(Lifetime.newBuilder().setRenewals(Messages.duration(LEASE)));
    int impatience = random.nextInt(4);
    if (impatience == 0) {
      request.setWait(atMost(Duration.ofMillis(1 + random.nextInt(200))));
    } else if (impatience > 1) {
      request.setWait(WaitTime.newBuilder().setForever(true));
    }
    try {
      return Optional.of(reserve(client, request.build()));
    } catch (BerthException e) {
      if (e.reason() == Reason.TIMED_OUT && impatience == 0
          || e.reason() == Reason.EXHAUSTED && impatience == 1) {
        return Optional.empty();
      }
      throw e;
    }
  }

  /** Takes GPUs for processes from a daemon that gets killed, and kills some of the processes. */
  Callable<Void> processes(String name, RestartedDaemon daemon, Random random) {
    return untilStopped(
        () -> {
          int millis =
              random.nextInt(3) == 0 ? LONG_MILLIS + random.nextInt(1500) : shortly(random);
          Mortal holder =
              Mortal.start(
                  folder,
                  Python.script("holder.py", referee.socket(), name, seconds(millis), now()));
          Fate fate = Fate.of(random);
          fate.beforeUse(holder, random.nextInt(150));
          Optional<Reservation> granted = reserveFor(holder, daemon, random);
          holder.tell(granted.map(r -> Referee.indices(indices(r))).orElse(""));
          await(Kind.PROCESS, holder, fate, random, millis);
        });
  }

  /** What the daemon granted, or nothing if the process or the daemon was killed before it did. */
  private Optional<Reservation> reserveFor(Mortal holder, RestartedDaemon daemon, Random random) {
    ReserveRequest request =
        request(random)
            .setLifetime(Lifetime.newBuilder().setProcess((int) holder.pid()))
            .setWait(atMost(PATIENCE))
            .setRequestId(Long.toHexString(random.nextLong()))
            .build();
    while (true) {
      try {
        return Optional.of(reserve(daemon.client(), request));
      } catch (BerthException e) {
        boolean killed = e.reason() == Reason.UNAVAILABLE || e.reason() == Reason.CANCELLED;
        if (holder.alive() && !killed) {
          throw e;
        }
        if (!holder.alive() || random.nextBoolean()) {
          return Optional.empty();
        }
      }
    }
  }

  /** Runs {@code berth lock}, and kills it while it waits or what it has become. */
  Callable<Void> lockCommands(String name, Random random) {
    return untilStopped(
        () -> {
          int millis = shortly(random);
          List<String> command =
              new ArrayList<>(
                  List.of(Installed.command("berth"), "lock", "--lock-dir", locks.toString()));
          command.addAll(List.of("--simulate-gpus", "" + GPUS, "--gpus", "" + size(random), "--"));
          command.addAll(
              Python.script("holder.py", referee.socket(), name, seconds(millis), now()));
          Mortal berth = Mortal.start(folder, command);
          Fate fate = Fate.of(random);
          fate.beforeUse(berth, random.nextInt(2000));
          await(Kind.LOCK, berth, fate, random, millis);
          pause(random, 500);
        });
  }

  /** Takes GPUs as services do that know only {@code fasteners}, and kills some of them. */
  Callable<Void> fasteners(String name, Random random) {
    return untilStopped(
        () -> {
          int millis = shortly(random);
          Mortal service =
              Mortal.start(
                  folder,
                  Python.script(
                      "fasteners_holder.py",
                      referee.socket(),
                      name,
                      seconds(millis),
                      locks,
                      GPUS,
                      size(random),
                      0.1));
          Fate fate = Fate.of(random);
          fate.beforeUse(service, random.nextInt(3000));
          await(Kind.FASTENERS, service, fate, random, millis);
          pause(random, 1000);
        });
  }

  /**
   * Kills a daemon some time after it has granted something, and starts it again a little later.
   * Every other time somebody uses its GPUs who may outlive it.
   */
  Callable<Void> restarts(RestartedDaemon daemon, Random random) {
    return untilStopped(
        () -> {
          boolean outlived = restarts % 2 == 0;
          Semaphore uses = outlived ? longUses : shortUses;
          uses.drainPermits();
          uses.tryAcquire(PATIENCE.toSeconds(), TimeUnit.SECONDS);
          pause(random, outlived ? 200 : 3000);
          daemon.kill();
          referee.serverKilled(Kind.PROCESS);
          restarts++;
          pause(random, 600);
          daemon.start();
        });
  }

  private enum Fate {
    KILLED_BEFORE_USE,
    KILLED_IN_USE,
    LIVES;

    static Fate of(Random random) {
      return values()[Math.min(random.nextInt(4), LIVES.ordinal())];
    }

    void beforeUse(Mortal mortal, long millis) {
      if (this == KILLED_BEFORE_USE) {
        mortal.killAfter(millis);
      }
    }

    void inUse(Mortal mortal, long millis) {
      if (this == KILLED_IN_USE) {
        mortal.killAfter(millis);
      }
    }
  }

  private void await(Kind kind, Mortal mortal, Fate fate, Random random, int millis)
      throws IOException, InterruptedException {
    if (mortal.awaitUse().isPresent()) {
      if (kind == Kind.PROCESS) {
        (millis < LONG_MILLIS ? shortUses : longUses).release();
      }
      fate.inUse(mortal, random.nextInt(millis + 1));
    }
    if (mortal.join()) {
      kills.merge(kind, 1, Integer::sum);
    }
  }

  /** Does nothing for at most so long. */
  private void pause(Random random, int mostMillis) throws InterruptedException {
    stop.await(random.nextInt(mostMillis), TimeUnit.MILLISECONDS);
  }

  private interface Round {
    void run() throws Exception;
  }

  private Callable<Void> untilStopped(Round round) {
    return () -> {
      while (stop.getCount() > 0) {
        round.run();
      }
      return null;
    };
  }

  private static Reservation reserve(ReservationClient client, ReserveRequest request) {
    AtomicReference<Reservation> granted = new AtomicReference<>();
    client.reserve(
        request,
        response -> {
          if (response.hasGranted()) {
            granted.set(response.getGranted());
          }
        });
    return granted.get();
  }

  private static ReserveRequest.Builder request(Random random) {
    return ReserveRequest.newBuilder().setGpus(GpuRequest.newBuilder().setCount(size(random)));
  }

  private static int size(Random random) {
    return random.nextInt(20) == 0 ? GPUS : 1 + random.nextInt(GPUS - 1);
  }

  private static int shortly(Random random) {
    return random.nextInt(60);
  }

  private static WaitTime atMost(Duration time) {
    return WaitTime.newBuilder().setAtMost(Messages.duration(time)).build();
  }

  private static List<Integer> indices(Reservation reservation) {
    return reservation.getGpusList().stream().map(ReservedGpu::getIndex).toList();
  }

  private static double seconds(int millis) {
    return millis / 1000.0;
  }

  private static long now() {
    return System.nanoTime();
  }
}
