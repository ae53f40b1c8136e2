package berth.e2e.bench;

import berth.client.call.ReservationClient;
import berth.rpc.Address;
import berth.v1.GpuRequest;
import berth.v1.ReserveRequest;
import berth.v1.WaitTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** A running {@code berthd}, through gRPC; every client has a connection of its own. */
final class BerthSide implements Side {
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Address server;
  private final int gpus;

  BerthSide(Address server, int gpus) {
    this.server = server;
    this.gpus = gpus;
  }

  @Override
  public Throughput loop(int clients, int holdMillis, int seconds) {
    CountDownLatch start = new CountDownLatch(clients);
    ExecutorService threads = Executors.newFixedThreadPool(clients);
    try {
      List<CompletableFuture<Long>> counts = new ArrayList<>();
      for (int i = 0; i < clients; i++) {
        counts.add(CompletableFuture.supplyAsync(() -> loop(start, holdMillis, seconds), threads));
      }
      return Throughput.of(counts.stream().mapToLong(CompletableFuture::join).toArray(), seconds);
    } finally {
      threads.shutdown();
    }
  }

  private long loop(CountDownLatch start, int holdMillis, int seconds) {
    try (ReservationClient client = ReservationClient.of(server)) {
      // Connects, which is not to be measured.
      client.listReservations(PATIENCE);
      start.countDown();
      await(start);
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
      long count = 0;
      while (System.nanoTime() - end < 0) {
        String id = reserve(client, 1);
        if (holdMillis > 0) {
          pause(0, 2 * holdMillis);
        }
        client.release(id, PATIENCE);
        if (System.nanoTime() - end < 0) {
          count++;
        }
      }
      return count;
    }
  }

  @Override
  public long[] handOvers(int times) {
    try (ReservationClient holder = ReservationClient.of(server)) {
      return handOvers(
          times,
          () -> {
            String id = reserve(holder, gpus);
            return () -> {
              long released = System.nanoTime();
              holder.release(id, PATIENCE);
              return released;
            };
          });
    }
  }

  /** The same with a process that knows nothing of Berth as the one who holds. */
  long[] handOversFrom(SeedSide.Holder holder, int times) {
    return handOvers(
        times,
        () -> {
          holder.hold();
          return holder::release;
        });
  }

  /** Takes all GPUs; what it returns releases them and says when it began to. */
  private interface Taking {
    LongSupplier take();
  }

  private long[] handOvers(int times, Taking taking) {
    long[] nanos = new long[times];
    try (ReservationClient waiter = ReservationClient.of(server)) {
      for (int i = 0; i < times; i++) {
        LongSupplier release = taking.take();
        CompletableFuture<Void> queued = new CompletableFuture<>();
        CompletableFuture<Long> granted =
            CompletableFuture.supplyAsync(() -> grantedAt(waiter, queued));
        queued.join();
        // Until the server has come to rest; nothing there depends on how long it waits.
        pause(10, 30);
        nanos[i] = -release.getAsLong() + granted.join();
      }
    }
    return nanos;
  }

  private static long grantedAt(ReservationClient client, CompletableFuture<Void> queued) {
    long[] at = new long[1];
    String[] id = new String[1];
    client.reserve(
        request(1),
        response -> {
          if (response.hasGranted()) {
            at[0] = System.nanoTime();
            id[0] = response.getGranted().getReservationId();
          } else {
            queued.complete(null);
          }
        });
    client.release(id[0], PATIENCE);
    return at[0];
  }

  private static String reserve(ReservationClient client, int count) {
    String[] id = new String[1];
    client.reserve(
        request(count),
        response -> {
          if (response.hasGranted()) {
            id[0] = response.getGranted().getReservationId();
          }
        });
    return id[0];
  }

  private static ReserveRequest request(int count) {
    return ReserveRequest.newBuilder()
        .setGpus(GpuRequest.newBuilder().setCount(count))
        .setWait(WaitTime.newBuilder().setForever(true))
        .build();
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void pause(int fromMillis, int toMillis) {
    long nanos =
        ThreadLocalRandom.current()
            .nextLong(
                TimeUnit.MILLISECONDS.toNanos(fromMillis), TimeUnit.MILLISECONDS.toNanos(toMillis));
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
