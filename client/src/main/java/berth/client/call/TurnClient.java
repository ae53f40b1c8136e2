package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replicas.Replica;
import berth.rpc.Statuses;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import berth.v1.RegistryServiceGrpc;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** A place in the line of one registry: one call of {@code AwaitTurn}. */
final class TurnClient implements Turn {
  // Longer than other calls have: whoever gives up too early stands in another line than the rest.
  private static final Duration FIRST_ANSWER = Duration.ofSeconds(5);
  private static final Duration LOOK_AROUND_EVERY = Duration.ofSeconds(5);

  private final String peer;
  private ClientCallStreamObserver<AwaitTurnRequest> call;
  // What the registry said last, until it is taken.
  private AwaitTurnResponse news;
  private boolean heard;
  private boolean turn;
  private BerthException broken;

  private TurnClient(String peer) {
    this.peer = peer;
  }

  /** Takes a place, and returns at once. */
  static TurnClient open(Replica registry, AwaitTurnRequest request) {
    TurnClient place = new TurnClient(registry.peer());
    registry.connection().connectNow();
    RegistryServiceGrpc.newStub(registry.channel()).awaitTurn(request, place.new Stream());
    return place;
  }

  /**
   * Waits for the turn, unless the place is lost before; it is lost too when the thread is
   * interrupted.
   *
   * @param leave is asked now and then whether to give the place up for a better one
   * @return whether it is the turn; if not, {@link #broken} says why
   */
  boolean awaitTurn(BooleanSupplier leave, Consumer<Ahead> listener) {
    boolean mine = false;
    try {
      while (awaitNews(heard() ? LOOK_AROUND_EVERY : FIRST_ANSWER)) {
        AwaitTurnResponse said = takeNews();
        if (said != null && said.getTurn()) {
          mine = true;
          return true;
        } else if (said != null) {
          listener.accept(said.getAhead());
        } else if (!heard()) {
          end(new BerthException(Reason.TIMED_OUT, peer + " did not answer in time"));
        } else if (leave.getAsBoolean()) {
          end(
              new BerthException(
                  Reason.UNAVAILABLE, "a registry before " + peer + " answers again"));
        }
      }
      return false;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      end(new BerthException(Reason.CANCELLED, "interrupted while waiting for a turn", e));
      return false;
    } finally {
      if (!mine) {
        close();
      }
    }
  }

  /** Whether the registry has said anything. */
  synchronized boolean heard() {
    return heard;
  }

  /** Why the place is lost; null if it is not. */
  synchronized BerthException broken() {
    return broken;
  }

  @Override
  public synchronized boolean held() {
    return turn && broken == null;
  }

  @Override
  public void close() {
    end(new BerthException(Reason.CANCELLED, "left the queue"));
    call.cancel("left the queue", null);
  }

  // Returns false if the place is lost.
  private synchronized boolean awaitNews(Duration atMost) throws InterruptedException {
    long start = System.nanoTime();
    while (news == null && broken == null) {
      long left = atMost.toNanos() - (System.nanoTime() - start);
      if (left <= 0) {
        return true;
      }
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
    return broken == null;
  }

  private synchronized AwaitTurnResponse takeNews() {
    AwaitTurnResponse taken = news;
    news = null;
    return taken;
  }

  private synchronized void end(BerthException why) {
    if (broken == null) {
      broken = why;
      notifyAll();
    }
  }

  private final class Stream
      implements ClientResponseObserver<AwaitTurnRequest, AwaitTurnResponse> {
    @Override
    public void beforeStart(ClientCallStreamObserver<AwaitTurnRequest> started) {
      call = started;
    }

    @Override
    public void onNext(AwaitTurnResponse response) {
      synchronized (TurnClient.this) {
        news = response;
        heard = true;
        turn |= response.getTurn();
        TurnClient.this.notifyAll();
      }
    }

    @Override
    public void onError(Throwable failure) {
      end(Statuses.fromStatus(failure, peer));
    }

    @Override
    public void onCompleted() {
      end(new BerthException(Reason.UNAVAILABLE, peer + " ended the stream"));
    }
  }
}
