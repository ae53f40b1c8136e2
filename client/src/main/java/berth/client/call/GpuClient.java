package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.RpcChannel;
import berth.rpc.Statuses;
import berth.v1.Gpu;
import berth.v1.GpuServiceGrpc;
import berth.v1.HealGpuRequest;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The GPUs of one server. Any thread may call; every failure is a {@link BerthException}. Closing
 * it ends the calls that still run.
 */
public final class GpuClient implements AutoCloseable {
  private final RpcChannel channel;
  private final String peer;
  private volatile boolean closed;

  private GpuClient(RpcChannel channel, String peer) {
    this.channel = channel;
    this.peer = peer;
  }

  /** A client of the {@code berthd} at {@code server}. It connects with its first call. */
  public static GpuClient of(Address server) {
    return new GpuClient(RpcChannel.to(server), "berthd at " + server);
  }

  /** Returns the newest sample. */
  public ListGpusResponse listGpus(Duration timeout) {
    try {
      return GpuServiceGrpc.newBlockingStub(channel.channel())
          .withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS)
          .listGpus(ListGpusRequest.getDefaultInstance());
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  /**
   * Puts a GPU back into service.
   *
   * @param gpu its index or UUID
   * @param force although the driver asks for a recovery action
   */
  public Gpu healGpu(String gpu, boolean force, Duration timeout) {
    try {
      return GpuServiceGrpc.newBlockingStub(channel.channel())
          .withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS)
          .healGpu(HealGpuRequest.newBuilder().setGpu(gpu).setForce(force).build())
          .getGpu();
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  /**
   * Passes every sample and every change of health to {@code consumer}, in the calling thread,
   * until the connection ends.
   *
   * @throws BerthException when it ends, as it always does in the end
   */
  public void watchGpus(Consumer<WatchGpusResponse> consumer) {
    try {
      Iterator<WatchGpusResponse> responses =
          GpuServiceGrpc.newBlockingStub(channel.channel())
              .watchGpus(WatchGpusRequest.getDefaultInstance());
      while (responses.hasNext()) {
        consumer.accept(responses.next());
      }
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  public boolean closed() {
    return closed;
  }

  @Override
  public void close() {
    closed = true;
    channel.close();
  }
}
