package berth.cli;

import berth.cli.ServerFilterOptions.LabelOption;
import berth.client.call.PlacedReservation;
import berth.client.call.ReservationClient;
import berth.client.call.ThisUser;
import berth.command.DurationConverter;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Lifetime;
import berth.v1.Queued;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.ServerFilter;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth reserve}. */
@Command(
    name = "reserve",
    sortOptions = false,
    description = {
      "Reserve GPUs and ports.",
      "",
      "Without --server, the best matching server of the registry is chosen; if none has enough"
          + " free GPUs, the request queues at one with a short queue.",
      "",
      "Without --for and --process, the reservation is held until this command is stopped with"
          + " Ctrl-C.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth reserve --gpus 2 --for 2h",
      "  berth reserve --gpu 0,1 --server gpu01 --purpose debugging"
    })
final class ReserveCommand implements Callable<Integer> {
  @Mixin private ServerOption server;
  @Mixin private GpuOptions gpus;
  @Mixin private LabelOption labels;

  @Option(
      names = "--ports",
      paramLabel = "N",
      defaultValue = "0",
      description = "Number of TCP ports to reserve; without --gpus and --gpu, ports only.")
  private int ports;

  @ArgGroup private Life life = new Life();

  /** What the reservation lives by. */
  static final class Life {
    @Option(
        names = "--for",
        paramLabel = "DURATION",
        converter = DurationConverter.class,
        description = "Hold for this time, for example 2h, and return; see 'berth renew'.")
    private Optional<Duration> time = Optional.empty();

    @Option(
        names = "--process",
        paramLabel = "PID",
        description = "Hold while this process on the server's machine lives, and return.")
    private Optional<Integer> process = Optional.empty();
  }

  @Option(
      names = "--purpose",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Purpose, shown to other users.")
  private String purpose;

  @Option(
      names = "--request-id",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Idempotency key: a retry with the same key returns the same reservation.")
  private String requestId;

  @Option(names = "--json", description = "Print JSON lines (ReserveResponse).")
  private boolean json;

  @Override
  public Integer call() {
    try (Servers servers = server.servers()) {
      ServerFilter filter = labels.filter(servers);
      if (servers.registry().isPresent()) {
        if (!requestId.isEmpty()) {
          throw new BerthException(Reason.INVALID, "--request-id requires --server");
        }
        if (life.process.isPresent()) {
          throw new BerthException(Reason.INVALID, "--process requires --server");
        }
        new PlacedReservation(
                servers.registry().get(), this::show, new PlacementNotes(this::note, () -> {}))
            .reserve(request(), filter);
      } else {
        try (ReservationClient client = ReservationClient.of(servers.one())) {
          client.reserve(request(), this::show);
        }
      }
    }
    return ExitCode.OK;
  }

  private void note(String text) {
    if (!json) {
      Terminal.note(text);
    }
  }

  private ReserveRequest request() {
    ReserveRequest.Builder request =
        ReserveRequest.newBuilder()
            .setPortCount(ports)
            .setWait(Messages.waitTime(gpus.waitAtMost()))
            .setLifetime(lifetime())
            .setOwner(ThisUser.owner())
            .setPurpose(purpose)
            .setRequestId(requestId);
    if (ports == 0 || gpus.countGiven() || !gpus.ids().isEmpty()) {
      request.setGpus(Requests.gpus(gpus));
    }
    return request.build();
  }

  private Lifetime lifetime() {
    Lifetime.Builder lifetime = Lifetime.newBuilder();
    life.time.ifPresent(time -> lifetime.setDuration(Messages.duration(time)));
    life.process.ifPresent(lifetime::setProcess);
    return life.time.isEmpty() && life.process.isEmpty()
        ? lifetime.setStream(true).build()
        : lifetime.build();
  }

  private void show(ReserveResponse response) {
    if (json) {
      Terminal.line(JsonOutput.line(response));
    } else if (response.hasQueued()) {
      Terminal.note(place(response.getQueued()));
    } else {
      Terminal.line(ReservationTable.line(response.getGranted()));
      if (life.time.isEmpty() && life.process.isEmpty()) {
        Terminal.note("held until Ctrl-C");
      }
    }
    System.out.flush();
  }

  /** A place in the queue in words. */
  static String place(Queued queued) {
    int ahead = queued.getAhead();
    String because = queued.getWaitingBecause();
    return (ahead == 0
            ? "next in line, waiting for GPUs"
            : "waiting behind " + ahead + (ahead == 1 ? " request" : " requests"))
        + (because.isEmpty() ? "" : ": " + because);
  }
}
