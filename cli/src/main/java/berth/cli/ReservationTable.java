package berth.cli;

import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.v1.ListReservationsResponse;
import berth.v1.LockHolder;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.UnreservedUse;
import berth.v1.Waiting;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Draws who holds what for people. */
final class ReservationTable {
  private static final List<String> HEADING =
      List.of("GPUS", "HOLDER", "SINCE", "UNTIL", "RESERVATION", "PORTS", "PURPOSE");

  private final TimeText times;

  ReservationTable(TimeText times) {
    this.times = times;
  }

  /** One reservation in one line. */
  static String line(Reservation reservation) {
    StringBuilder text = new StringBuilder(reservation.getReservationId()).append(':');
    if (reservation.getGpusCount() > 0) {
      text.append(reservation.getGpusCount() == 1 ? " GPU " : " GPUs ")
          .append(indices(reservation));
    }
    if (reservation.getPortsCount() > 0) {
      text.append(reservation.getPortsCount() == 1 ? " port " : " ports ")
          .append(ports(reservation));
    }
    if (reservation.hasRemaining()) {
      text.append(" for ").append(TimeText.span(Messages.duration(reservation.getRemaining())));
    } else if (reservation.getProcess() != 0) {
      text.append(" while process ").append(reservation.getProcess()).append(" lives");
    }
    return text.toString();
  }

  String render(ListReservationsResponse response) {
    List<List<String>> rows = new ArrayList<>();
    for (Reservation reservation : response.getReservationsList()) {
      rows.add(
          List.of(
              indices(reservation),
              clean(reservation.getOwner().getUser() + "@" + reservation.getOwner().getHost()),
              times.time(reservation.getGrantedAt()),
              until(reservation),
              reservation.getReservationId(),
              ports(reservation),
              clean(whatFor(reservation))));
    }
    for (LockHolder other : response.getLockedByOthersList()) {
      String who = other.getPid() == 0 ? "another process" : "process " + other.getPid();
      rows.add(List.of("" + other.getIndex(), who, "", "", "-", "", clean(other.getDescription())));
    }
    for (UnreservedUse use : response.getUnreservedUseList()) {
      String pids =
          use.getPidsList().stream().map(String::valueOf).collect(Collectors.joining(", "));
      rows.add(
          List.of(
              "" + use.getIndex(),
              "nobody",
              "",
              "",
              "-",
              "",
              "used without a reservation by " + pids));
    }
    rows.sort((a, b) -> Integer.compare(first(a), first(b)));
    StringBuilder text = new StringBuilder(clean(response.getServer()));
    text.append(response.getDraining() ? ", draining" : "");
    if (rows.isEmpty()) {
      return text.append(": nothing is reserved\n").append(waiting(response)).toString();
    }
    rows.add(0, HEADING);
    return text.append('\n').append(Columns.render(rows)).append(waiting(response)).toString();
  }

  private String waiting(ListReservationsResponse response) {
    StringBuilder text = new StringBuilder();
    int place = 0;
    for (Waiting waiting : response.getWaitingList()) {
      text.append(
          String.format(
              "waiting %d: %s@%s wants %s, since %s%s%s%n",
              ++place,
              clean(waiting.getOwner().getUser()),
              clean(waiting.getOwner().getHost()),
              waiting.getGpuCount() < 0 ? "all GPUs" : waiting.getGpuCount() + " GPUs",
              times.time(waiting.getSince()),
              waiting.getPurpose().isEmpty() ? "" : ": " + clean(waiting.getPurpose()),
              waiting.getWaitingBecause().isEmpty()
                  ? ""
                  : " (" + clean(waiting.getWaitingBecause()) + ")"));
    }
    return text.toString();
  }

  private String until(Reservation reservation) {
    if (reservation.getRenewed()) {
      return "while renewed";
    }
    if (reservation.hasRemaining()) {
      return "in " + TimeText.span(Messages.duration(reservation.getRemaining()));
    }
    if (reservation.getProcess() != 0) {
      return "end of process " + reservation.getProcess();
    }
    return reservation.getRunIdsCount() > 0
        ? "end of " + String.join(", ", reservation.getRunIdsList())
        : "its caller leaves";
  }

  private static String whatFor(Reservation reservation) {
    return reservation.getHeldBack().isEmpty()
        ? reservation.getPurpose()
        : "held back: " + reservation.getHeldBack();
  }

  private static int first(List<String> row) {
    return row.get(0).isEmpty() ? Integer.MAX_VALUE : Integer.parseInt(row.get(0).split(",")[0]);
  }

  static String indices(Reservation reservation) {
    return reservation.getGpusList().stream()
        .map(ReservedGpu::getIndex)
        .map(String::valueOf)
        .collect(Collectors.joining(","));
  }

  private static String ports(Reservation reservation) {
    return reservation.getPortsList().stream()
        .map(String::valueOf)
        .collect(Collectors.joining(","));
  }

  private static String clean(String text) {
    return PlainText.clean(text);
  }
}
