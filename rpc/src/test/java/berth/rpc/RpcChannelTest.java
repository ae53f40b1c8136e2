package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import berth.v1.GpuServiceGrpc;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import io.grpc.ManagedChannel;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class RpcChannelTest {
  private final List<LogRecord> panics = new CopyOnWriteArrayList<>();
  private final Logger log = Logger.getLogger("io.grpc");
  private final Handler handler =
      new Handler() {
        @Override
        public void publish(LogRecord record) {
          if (record.getLevel().intValue() >= Level.SEVERE.intValue()) {
            panics.add(record);
          }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  @BeforeEach
  void listen() {
    log.addHandler(handler);
  }

  @AfterEach
  void unlisten() {
    log.removeHandler(handler);
  }

  @Test
  void aChannelHasEndedBeforeItsThreadsDo() {
    for (int i = 0; i < 100; i++) {
      RpcChannel channel = RpcChannel.to(new Address("localhost", Loopback.closedPort().port()));
      call(channel);
      channel.connectNow();
      channel.close();
      assertThat(((ManagedChannel) channel.channel()).isTerminated()).isTrue();
    }
    assertThat(panics).isEmpty();
  }

  @Test
  void soHaveThoseThatShareThreads() {
    for (int i = 0; i < 50; i++) {
      RpcThreads threads = new RpcThreads("test", 1);
      RpcChannel channel =
          RpcChannel.to(new Address("localhost", Loopback.closedPort().port()), threads);
      call(channel);
      channel.connectNow();
      channel.close();
      threads.close();
      assertThat(((ManagedChannel) channel.channel()).isTerminated()).isTrue();
    }
    assertThat(panics).isEmpty();
  }

  private static void call(RpcChannel channel) {
    GpuServiceGrpc.newStub(channel.channel())
        .listGpus(
            ListGpusRequest.getDefaultInstance(), new Reader<ListGpusRequest, ListGpusResponse>());
  }
}
