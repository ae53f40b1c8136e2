package berth.server.gpu;

import berth.host.gpu.GpuHealthChange;
import berth.host.gpu.GpuListener;
import berth.host.gpu.GpuMonitor;
import berth.host.gpu.GpuSample;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.StreamPump;
import berth.v1.GetGpuHistoryRequest;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GpuServiceGrpc;
import berth.v1.HealGpuRequest;
import berth.v1.HealGpuResponse;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import io.grpc.stub.StreamObserver;

/** Speaks gRPC for {@link GpuMonitor}; decides nothing itself. */
public final class GpuGrpcService extends GpuServiceGrpc.GpuServiceImplBase {
  // Two minutes of samples at the default interval.
  private static final int WAITING_RESPONSES = 128;

  private final GpuMonitor gpus;
  private final GpuMessages messages;
  private final GpuPast past = new GpuPast();

  public GpuGrpcService(String serverName, GpuMonitor gpus) {
    this.gpus = gpus;
    this.messages = new GpuMessages(serverName);
    gpus.listen(past);
  }

  @Override
  public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
    Replies.unary(
        observer,
        () ->
            ListGpusResponse.newBuilder()
                .setReport(messages.report(gpus.newest(), gpus.nowNanos()))
                .build());
  }

  @Override
  public void watchGpus(WatchGpusRequest request, StreamObserver<WatchGpusResponse> observer) {
    StreamPump<WatchGpusResponse> pump =
        new StreamPump<>(observer, WAITING_RESPONSES, new SkipSamples());
    pump.onEnd(
        gpus.listen(
            new GpuListener() {
              @Override
              public void sampled(GpuSample sample) {
                pump.send(
                    WatchGpusResponse.newBuilder()
                        .setReport(messages.report(sample, gpus.nowNanos()))
                        .build());
              }

              @Override
              public void healthChanged(GpuHealthChange change) {
                pump.send(
                    WatchGpusResponse.newBuilder()
                        .setHealthChange(messages.healthChange(change))
                        .build());
              }

              @Override
              public void stopped() {
                pump.fail(new BerthException(Reason.UNAVAILABLE, "this server is stopping"));
              }
            }));
  }

  @Override
  public void getGpuHistory(
      GetGpuHistoryRequest request, StreamObserver<GetGpuHistoryResponse> observer) {
    Replies.unary(observer, () -> past.message(gpus.nowNanos()));
  }

  @Override
  public void healGpu(HealGpuRequest request, StreamObserver<HealGpuResponse> observer) {
    Replies.unary(
        observer,
        () ->
            HealGpuResponse.newBuilder()
                .setGpu(GpuMessages.gpu(gpus.heal(request.getGpu(), request.getForce())))
                .build());
  }

  private static final class SkipSamples implements StreamPump.Overflow<WatchGpusResponse> {
    @Override
    public boolean mayDrop(WatchGpusResponse response) {
      return response.hasReport();
    }

    @Override
    public WatchGpusResponse afterSkipping(WatchGpusResponse response, int skipped) {
      return response.toBuilder().setSkippedSamples(skipped).build();
    }
  }
}
