package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.v1.GpuServiceGrpc;
import berth.v1.ListGpusRequest;
import org.junit.jupiter.api.Test;

class HttpPortTest {
  @Test
  void anHttpPortIsSaidToBeOne() {
    try (var http =
            HttpServer.listenOn(new Address("127.0.0.1", 0))
                .get("/", call -> call.reply(HttpReply.text(200, "metrics")))
                .start();
        var channel = RpcChannel.to(http.address())) {
      var gpus = GpuServiceGrpc.newBlockingStub(channel.channel());
      var failure = catchThrowable(() -> gpus.listGpus(ListGpusRequest.getDefaultInstance()));

      assertThat(Statuses.fromStatus(failure, "berthd at " + http.address()))
          .hasMessage(
              "no berthd at "
                  + http.address()
                  + ": this is an HTTP port, such as that of the page or of metrics; use the gRPC"
                  + " port (by default 18812 of berthd, 18811 of a registry)");
    }
  }
}
