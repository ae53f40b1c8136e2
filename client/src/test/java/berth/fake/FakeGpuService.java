package berth.fake;

import berth.v1.Gpu;
import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import io.grpc.stub.StreamObserver;
import java.util.List;

/** The GPUs of a server, as a test says; to be served beside others. */
public final class FakeGpuService extends GpuServiceGrpc.GpuServiceImplBase {
  public volatile List<Gpu> gpus = List.of();

  @Override
  public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
    observer.onNext(
        ListGpusResponse.newBuilder()
            .setReport(GpuReport.newBuilder().setServer("gpu01").addAllGpus(gpus))
            .build());
    observer.onCompleted();
  }
}
