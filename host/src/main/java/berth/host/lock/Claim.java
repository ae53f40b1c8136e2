package berth.host.lock;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealthChange;
import berth.host.gpu.GpuListener;
import berth.host.gpu.GpuSample;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The taking of GPU locks for one request, by the rules that all processes of the machine share:
 * wait for our turn, take the system lock, then the GPUs. Whoever has the system lock keeps it
 * until it has all its GPUs, so nobody overtakes, and what it gathered meanwhile it keeps; except
 * while something is wrong with this server, when it waits with its place in the line alone.
 *
 * <p>One thread runs it; any thread may cancel it. Nothing polls: a wait for a lock is a thread in
 * the kernel, and the rest are events.
 */
public final class Claim implements AutoCloseable {
  // A job that ends frees its GPUs one by one. Those who wait should see them all, and choose the
  // best.
  private static final long GATHER_NANOS = TimeUnit.MICROSECONDS.toNanos(300);

  private sealed interface Event {}

  private record Acquired(int index) implements Event {}

  private record Released() implements Event {}

  private record Sampled() implements Event {}

  private record Cancelled() implements Event {}

  private record Waiter(LockWait lockWait, Future<Optional<LockFile>> result) {}

  private final LockProtocol protocol;
  private final GpuWish wish;
  private final LockWait turn = new LockWait();
  private final LinkedBlockingQueue<Event> events = new LinkedBlockingQueue<>();
  private final Map<Integer, LockFile> locked = new TreeMap<>();
  private final Map<Integer, Waiter> waiters = new TreeMap<>();
  private List<Integer> kept = List.of();
  private String trouble = "";
  private boolean possible;
  private volatile TicketQueue.Ticket ticket;
  private volatile boolean atWork;
  private volatile BerthException cancelled;

  /**
   * @param possible whether it was accepted before, as possible: then it waits though this server
   *     shows fewer GPUs now. Otherwise it is refused as soon as it is known to be impossible
   */
  public Claim(LockProtocol protocol, GpuWish wish, boolean possible) {
    this.protocol = protocol;
    this.wish = wish;
    this.possible = possible;
  }

  /** With what to wait for a place in the line: ends when this is cancelled. */
  public LockWait placeWait() {
    return turn;
  }

  /** Gives it its place in the line, which it keeps until it is closed. Before {@link #run}. */
  public void place(TicketQueue.Ticket taken) {
    ticket = taken;
  }

  public boolean hasPlace() {
    return ticket != null;
  }

  /** Requests of other processes that come before this one. */
  public int ahead() {
    return hasPlace() ? ticket.ahead() : 0;
  }

  /** Whether somebody else comes first. */
  public boolean hasToQueue() {
    return !atWork && (!hasPlace() || ticket.ahead() > 0 || protocol.folder().systemIsLocked());
  }

  /** Why it was cancelled, if it was. */
  public Optional<BerthException> cancelled() {
    return Optional.ofNullable(cancelled);
  }

  /** Ends {@link #run} with {@code why}, wherever it is. */
  public void cancel(BerthException why) {
    cancelled = why;
    events.add(new Cancelled());
    turn.cancel();
  }

  /** Leaves the line. */
  @Override
  public void close() {
    if (hasPlace()) {
      ticket.close();
    }
  }

  /**
   * Takes the GPUs. Keeps the place in the line, so that it can be called again if it fails for a
   * reason that may pass.
   *
   * @param waits whether to wait for GPUs that are in use, sick or unknown
   * @param waiting told when it has to, and whenever the reason changes: what is wrong with this
   *     server, or nothing if the GPUs are only in use
   * @throws BerthException if cancelled, or if they cannot be had; nothing is held then
   */
  public HeldGpus run(boolean waits, Consumer<String> waiting) throws InterruptedException {
    if (!ticket.awaitTurn(turn)) {
      throw cancelled;
    }
    while (true) {
      ticket.giveWayToOthers();
      LockFile system =
          LockFolder.lock(protocol.folder().system(), turn).orElseThrow(() -> cancelled);
      atWork = true;
      try {
        Optional<HeldGpus> held = gather(waits, waiting);
        if (held.isPresent()) {
          return held.get();
        }
      } finally {
        system.close();
        ticket.systemLockReleased();
      }
      // It may take days until a GPU is repaired. The place in the line is enough to wait with;
      // those who know nothing of the line go on meanwhile.
      awaitEndOfTrouble(waiting);
    }
  }

  // Empty if it has to wait for something that is wrong with this server.
  private Optional<HeldGpus> gather(boolean waits, Consumer<String> waiting)
      throws InterruptedException {
    try {
      while (true) {
        List<Gpu> chosen = choose(false);
        if (chosen.isEmpty()) {
          if (!waits) {
            throw tooFew();
          }
          chosen = awaitChoice(waiting);
        }
        if (!trouble.isEmpty()) {
          return Optional.empty();
        }
        Optional<HeldGpus> held = hold(chosen);
        if (held.isPresent()) {
          return held;
        }
      }
    } finally {
      letGo();
    }
  }

  // Empty if somebody has replaced a lock file in this moment, and somebody else has locked it.
  private Optional<HeldGpus> hold(List<Gpu> chosen) {
    HeldGpus held =
        new HeldGpus(
            protocol,
            chosen.stream().map(gpu -> new LockedGpu(gpu.index(), gpu.uuid())).toList(),
            chosen.stream().map(gpu -> HeldLock.whole(locked.remove(gpu.index()))).toList());
    try {
      if (protocol.remember(held)) {
        return Optional.of(held);
      }
    } catch (RuntimeException e) {
      held.close();
      throw e;
    }
    held.close();
    return Optional.empty();
  }

  // None if something is wrong with this server.
  private List<Gpu> awaitChoice(Consumer<String> waiting) throws InterruptedException {
    Runnable stopReleases = protocol.listen(() -> events.add(new Released()));
    Runnable stopSamples = protocol.gpus().listen(new SampleEvents());
    try {
      List<Gpu> chosen = choose(true);
      if (chosen.isEmpty() && trouble.isEmpty()) {
        waiting.accept("");
      }
      while (chosen.isEmpty() && trouble.isEmpty()) {
        handleNext();
        chosen = choose(true);
      }
      return chosen;
    } finally {
      stopSamples.run();
      stopReleases.run();
    }
  }

  private void awaitEndOfTrouble(Consumer<String> waiting) throws InterruptedException {
    Runnable stopSamples = protocol.gpus().listen(new SampleEvents());
    try {
      String told = "";
      while (!trouble.isEmpty()) {
        if (!trouble.equals(told)) {
          told = trouble;
          waiting.accept(trouble);
        }
        handleNext();
        GpuSample sample = protocol.gpus().newest();
        possible = possible || wish.checkAgainst(sample);
        trouble = wish.trouble(sample).orElse("");
      }
    } finally {
      stopSamples.run();
    }
  }

  private void handleNext() throws InterruptedException {
    for (Event event = events.take(); event != null; event = events.poll()) {
      handle(event);
    }
  }

  private void handle(Event event) throws InterruptedException {
    if (event instanceof Cancelled) {
      throw cancelled;
    }
    if (event instanceof Acquired acquired) {
      takeOver(acquired.index);
      // More of the same release may be on their way.
      for (Event next;
          !wish.isForOne() && (next = events.poll(GATHER_NANOS, TimeUnit.NANOSECONDS)) != null; ) {
        if (next instanceof Acquired another) {
          takeOver(another.index);
        } else if (next instanceof Cancelled) {
          throw cancelled;
        }
      }
    }
  }

  /**
   * The GPUs to take, all of them locked; none if there are too few yet.
   *
   * @param waits whether to wait for those that are in use
   */
  private List<Gpu> choose(boolean waits) {
    GpuSample sample = protocol.gpus().newest();
    possible = possible || wish.checkAgainst(sample);
    dropReplaced();
    trouble = wish.trouble(sample).orElse("");
    if (!trouble.isEmpty()) {
      return List.of();
    }
    List<Gpu> usable = wish.usable(sample);
    int needed = wish.needed(usable.size());
    List<Gpu> available = new ArrayList<>();
    for (Gpu gpu : usable) {
      if (wish.hasRoom(gpu) && !usedByStrangers(gpu, sample) && lock(gpu.index(), waits)) {
        available.add(gpu);
        if (wish.isForOne()) {
          // Alone, none is better connected than another.
          break;
        }
      }
    }
    if (available.size() < needed) {
      kept = List.copyOf(locked.keySet());
      return List.of();
    }
    // What was gathered in earlier rounds stays, as those who know the old protocol expect.
    List<Integer> indices = available.stream().map(Gpu::index).toList();
    List<Integer> fixed = kept.stream().filter(indices::contains).limit(needed).toList();
    List<Integer> free = indices.stream().filter(index -> !fixed.contains(index)).toList();
    List<Integer> best = new Topology(sample.links()).best(needed, fixed, free);
    return available.stream().filter(gpu -> best.contains(gpu.index())).toList();
  }

  // Of what was gathered, that is still ours which others find locked by us.
  private void dropReplaced() {
    for (int index : List.copyOf(locked.keySet())) {
      if (!locked.get(index).isCurrent()) {
        Optional<LockFile> anew =
            LockFolder.relock(protocol.folder().gpu(index), List.of(LockFile.Range.WHOLE));
        locked.remove(index).close();
        protocol.gathered().remove(index);
        anew.ifPresent(file -> gathered(index, file));
      }
    }
  }

  /** Has a GPU locked if it is free, else waits for it if asked to. */
  private boolean lock(int index, boolean waits) {
    if (locked.containsKey(index)) {
      return true;
    }
    // Of what this process releases it is told; only others have to be waited for in the kernel.
    if (protocol.holds(index)) {
      return false;
    }
    // Also where a thread waits already: it may not have woken up yet, and the lowest of several
    // GPUs that are freed together should be seen first.
    Optional<LockFile> file = LockFolder.tryLock(protocol.folder().gpu(index));
    if (file.isPresent()) {
      gathered(index, file.get());
    } else if (waits && !waiters.containsKey(index)) {
      waiters.put(index, awaitLock(index));
    }
    return file.isPresent();
  }

  private Waiter awaitLock(int index) {
    LockWait lockWait = new LockWait();
    return new Waiter(
        lockWait,
        protocol
            .waiters()
            .submit(
                () -> {
                  try {
                    return LockFolder.lock(protocol.folder().gpu(index), lockWait);
                  } finally {
                    events.add(new Acquired(index));
                  }
                }));
  }

  private void takeOver(int index) throws InterruptedException {
    Waiter waiter = waiters.get(index);
    if (waiter != null) {
      result(waiter).ifPresent(file -> gathered(index, file));
      waiters.remove(index);
    }
  }

  private void gathered(int index, LockFile file) {
    LockFile replaced = locked.put(index, file);
    if (replaced != null) {
      replaced.close();
    }
    protocol.gathered().add(index);
    if (waiters.containsKey(index)) {
      protocol.freed(index);
    }
  }

  private static Optional<LockFile> result(Waiter waiter) throws InterruptedException {
    try {
      return waiter.result.get();
    } catch (ExecutionException e) {
      // As it is: what is wrong with the server is told by its kind.
      if (e.getCause() instanceof RuntimeException failure) {
        throw failure;
      }
      if (e.getCause() instanceof Error failure) {
        throw failure;
      }
      throw new IllegalStateException(e.getCause());
    }
  }

  // A sample that is older than the last release may show the processes of whoever released.
  private boolean usedByStrangers(Gpu gpu, GpuSample sample) {
    return !protocol.ignoresStrangers()
        && gpu.processes().map(processes -> !processes.isEmpty()).orElse(false)
        && sample.taken().isPresent()
        && sample.taken().get().nanos() - protocol.freedAtNanos(gpu.index()) > 0;
  }

  /** What to say when there are too few and nobody wants to wait, or not any longer. */
  BerthException tooFew() {
    GpuSample sample = protocol.gpus().newest();
    if (wish.trouble(sample).isPresent()) {
      return wish.refusal(sample);
    }
    List<Gpu> usable = wish.usable(sample);
    long idle = usable.stream().filter(gpu -> locked.containsKey(gpu.index())).count();
    List<String> strangers = new ArrayList<>();
    for (Gpu gpu : usable) {
      if (usedByStrangers(gpu, sample)) {
        strangers.add("GPU " + gpu.index() + " is used without a reservation");
      }
    }
    return new BerthException(
        Reason.EXHAUSTED,
        wish.phrase(wish.needed(usable.size()))
            + " asked, "
            + idle
            + " idle"
            + (strangers.isEmpty() ? "" : "; " + String.join("; ", strangers)));
  }

  private void letGo() throws InterruptedException {
    waiters.values().forEach(waiter -> waiter.lockWait.cancel());
    try {
      for (Waiter waiter : waiters.values()) {
        try {
          result(waiter).ifPresent(LockFile::close);
        } catch (RuntimeException | Error e) {
          // It could not lock its file, so it has nothing to let go.
        }
      }
    } finally {
      waiters.clear();
      locked.values().forEach(LockFile::close);
      locked.clear();
      protocol.gathered().clear();
    }
  }

  private final class SampleEvents implements GpuListener {
    @Override
    public void sampled(GpuSample sample) {
      events.add(new Sampled());
    }

    @Override
    public void healthChanged(GpuHealthChange change) {
      // The sample that follows has it.
    }

    @Override
    public void stopped() {
      cancel(new BerthException(Reason.UNAVAILABLE, "this server is stopping"));
    }
  }
}
