package berth.e2e.reservations;

import berth.client.call.ReservationClient;
import berth.e2e.fixture.Daemon;
import berth.rpc.Address;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/** A daemon that is killed and started again, with a client for whichever one runs. */
final class RestartedDaemon implements AutoCloseable {
  private final Supplier<Daemon> starter;
  private Daemon daemon;
  private volatile CompletableFuture<ReservationClient> client = new CompletableFuture<>();

  RestartedDaemon(Supplier<Daemon> starter) {
    this.starter = starter;
    start();
  }

  /** A client of the daemon, as soon as it runs. */
  ReservationClient client() {
    return client.join();
  }

  Daemon daemon() {
    return daemon;
  }

  void start() {
    daemon = starter.get();
    client.complete(ReservationClient.of(Address.parse(daemon.address(), 0)));
  }

  /** Sends SIGKILL, and returns when it has ended. */
  void kill() throws InterruptedException {
    ReservationClient old = client.join();
    client = new CompletableFuture<>();
    daemon.kill();
    old.close();
  }

  @Override
  public void close() {
    if (client.isDone()) {
      client.join().close();
    }
    daemon.close();
  }
}
