package berth.e2e.bench;

import berth.client.call.RunClient;
import berth.e2e.bench.Job.Outcome;
import berth.rpc.Address;
import berth.v1.ExitReason;
import berth.v1.GpuRequest;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.WaitTime;
import java.time.Duration;

/** {@code RunCode} of a {@code berthd}, over one connection, which is open from the beginning. */
final class BerthJobs implements Jobs {
  private final RunClient client;
  private final String image;

  /**
   * @param image empty for a server that runs plain processes
   */
  BerthJobs(Address server, String image) {
    this.client = RunClient.of(server);
    this.image = image;
    client.listServices(Duration.ofSeconds(30));
  }

  @Override
  public Outcome run(Job job) {
    RunCodeRequest.Builder request =
        RunCodeRequest.newBuilder()
            .addAllCommand(job.command())
            .setNetwork(
                switch (job.network()) {
                  case HOST -> Network.NETWORK_HOST;
                  case NONE -> Network.NETWORK_NONE;
                  case BRIDGE -> Network.NETWORK_OWN;
                });
    if (!image.isEmpty()) {
      request.setImage(image);
    }
    if (job.gpus() > 0) {
      request
          .setGpus(GpuRequest.newBuilder().setCount(job.gpus()))
          .setWait(WaitTime.newBuilder().setForever(true));
    }
    Listener listener = new Listener();
    client.runCode(request.build(), listener::hear);
    return listener.outcome();
  }

  @Override
  public void close() {
    client.close();
  }

  private static final class Listener {
    private final long start = System.nanoTime();
    private long first;
    private long bytes;
    private RunExited exited = RunExited.getDefaultInstance();

    void hear(RunEvent event) {
      if (event.hasOutput()) {
        if (first == 0) {
          first = System.nanoTime() - start;
        }
        bytes += event.getOutput().getData().size();
      } else if (event.hasExited()) {
        exited = event.getExited();
      }
    }

    Outcome outcome() {
      if (exited.getReason() != ExitReason.EXIT_REASON_FINISHED || exited.getExitCode() != 0) {
        throw new IllegalStateException("a run failed: " + exited);
      }
      return new Outcome(System.nanoTime() - start, first, bytes);
    }
  }
}
