package berth.client.call;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Candidate;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.Server;
import berth.v1.WaitTime;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Finds a server that takes a request. What the registry knows is always a little old, so each
 * server is asked: first, without waiting, those that should have room; if none of them has, the
 * request waits at the one with the shortest queue, as long as whoever asks would.
 */
final class Placement {
  private static final int MOST_NAMED = 3;

  /** One server's refusal; the next may take the request. */
  static final class NotTaken extends Exception {
    private static final long serialVersionUID = 1L;

    private final BerthException why;

    NotTaken(BerthException why) {
      super(why);
      this.why = why;
    }
  }

  /** Asks one server. */
  interface Attempt {
    /**
     * Returns when the server took the request, and all is said.
     *
     * @param wait how long the request may wait there; empty: not at all
     */
    void at(Server server, Optional<WaitTime> wait) throws NotTaken, IOException;
  }

  private record Refusal(Server server, BerthException why) {}

  private final ServerSource servers;
  private final PlacementListener listener;
  private final List<Refusal> refusals = new ArrayList<>();

  Placement(ServerSource servers, PlacementListener listener) {
    this.servers = servers;
    this.listener = listener;
  }

  /**
   * Whether another server may take what one refused with {@code why} before it promised anything:
   * servers differ in what they have and allow.
   */
  static boolean othersMayTake(BerthException why) {
    return switch (why.reason()) {
      case EXHAUSTED, UNAVAILABLE, TIMED_OUT, NOT_FOUND, INVALID, DENIED -> true;
      case ALREADY_EXISTS, CONFLICT, CANCELLED, UNAUTHENTICATED, UNSUPPORTED, INTERNAL -> false;
    };
  }

  /**
   * @param wait as the request has it; its default: not at all
   * @throws BerthException if no server can take it, or none did
   */
  void place(FindGpusRequest wanted, WaitTime wait, Attempt attempt) throws IOException {
    long start = System.nanoTime();
    FindGpusResponse found = servers.findGpus(wanted);
    if (found.getCandidatesCount() == 0) {
      throw new BerthException(Reason.EXHAUSTED, found.getProblem());
    }
    List<Server> later = new ArrayList<>();
    for (Candidate candidate : found.getCandidatesList()) {
      if (!candidate.getNow()) {
        later.add(candidate.getServer());
      } else if (taken(candidate.getServer(), Optional.empty(), attempt)) {
        return;
      } else if (newest().why.reason() == Reason.EXHAUSTED) {
        later.add(candidate.getServer());
      }
    }
    if (waits(wait)) {
      later.sort(Comparator.comparingInt(server -> server.getStatus().getQueueLength()));
      for (Server server : later) {
        if (taken(server, Optional.of(left(wait, start)), attempt)) {
          return;
        }
      }
    }
    throw refused(later);
  }

  private boolean taken(Server server, Optional<WaitTime> wait, Attempt attempt)
      throws IOException {
    try {
      attempt.at(server, wait);
      return true;
    } catch (NotTaken e) {
      refusals.add(new Refusal(server, e.why));
      listener.passed(server, e.why);
      return false;
    }
  }

  private Refusal newest() {
    return refusals.get(refusals.size() - 1);
  }

  private static boolean waits(WaitTime wait) {
    return wait.getForever() || wait.hasAtMost() && !Messages.duration(wait.getAtMost()).isZero();
  }

  private static WaitTime left(WaitTime wait, long start) {
    if (!wait.hasAtMost()) {
      return wait;
    }
    Duration left = Messages.duration(wait.getAtMost()).minusNanos(System.nanoTime() - start);
    return WaitTime.newBuilder()
        .setAtMost(Messages.duration(left.isNegative() ? Duration.ZERO : left))
        .build();
  }

  private BerthException refused(List<Server> later) {
    if (refusals.isEmpty()) {
      return new BerthException(
          Reason.EXHAUSTED,
          later.size() == 1
              ? later.get(0).getInfo().getName() + " could take it, but not now"
              : later.size() + " servers could take it, but none now");
    }
    if (refusals.size() == 1) {
      return new BerthException(newest().why.reason(), said(newest()), newest().why);
    }
    // Many servers say the same.
    Map<String, Set<String>> byMessage = new LinkedHashMap<>();
    for (Refusal refusal : refusals) {
      byMessage
          .computeIfAbsent(refusal.why.getMessage(), message -> new LinkedHashSet<>())
          .add(refusal.server.getInfo().getName());
    }
    String text =
        byMessage.entrySet().stream()
            .limit(MOST_NAMED)
            .map(said -> names(said.getValue()) + ": " + said.getKey())
            .collect(Collectors.joining("; "));
    int more = byMessage.size() - MOST_NAMED;
    return new BerthException(
        newest().why.reason(),
        "no server took it: " + text + (more > 0 ? "; and " + more + " more reasons" : ""),
        newest().why);
  }

  private static String names(Set<String> names) {
    int more = names.size() - MOST_NAMED;
    return names.stream().limit(MOST_NAMED).collect(Collectors.joining(", "))
        + (more > 0 ? " and " + more + " more" : "");
  }

  private static String said(Refusal refusal) {
    return refusal.server.getInfo().getName() + ": " + refusal.why.getMessage();
  }
}
