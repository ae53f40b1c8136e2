package berth.registry.directory;

import berth.registry.directory.Listed.ListedGpu;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Candidate;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.GpuRequest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Which servers could take a request: those that could now first, and among them the best fit. */
final class ServerRanking {
  private static final int DEFAULT_LIMIT = 100;
  private static final int MAX_LIMIT = 1000;
  private static final int MAX_BYTES = 8 << 20;

  /**
   * A server that could take it.
   *
   * @param left free GPUs of the wanted kind that it would have left
   */
  private record Fit(Listed listed, boolean now, int left) {
    // Full servers are filled up first, so that large requests find empty ones.
    private static final Comparator<Fit> ORDER =
        Comparator.comparing(Fit::now)
            .reversed()
            .thenComparing(Fit::waiting)
            .thenComparing(Fit::left)
            .thenComparing(Fit::runs)
            .thenComparing(fit -> fit.listed.name());

    int waiting() {
      return now ? 0 : listed.server().getStatus().getQueueLength();
    }

    int runs() {
      return listed.server().getStatus().getRunCount();
    }
  }

  private final FindGpusRequest request;
  private final GpuRequest wanted;
  private final String model;
  private int known;
  private int passed;
  private int serving;
  private int mostFitting;

  private ServerRanking(FindGpusRequest request) {
    this.request = request;
    this.wanted = request.getGpus();
    this.model = Listed.lower(wanted.getModel());
  }

  /**
   * @throws BerthException INVALID if the request is wrong in itself
   */
  static FindGpusResponse find(Roster roster, FindGpusRequest request) {
    check(request);
    return new ServerRanking(request).among(roster);
  }

  private static void check(FindGpusRequest request) {
    GpuRequest gpus = request.getGpus();
    boolean valid =
        switch (gpus.getChoiceCase()) {
          case COUNT -> gpus.getCount() >= 1 || gpus.getCount() == -1;
          case EXACTLY -> gpus.getExactly().getIdsCount() > 0;
          case CHOICE_NOT_SET -> !request.hasGpus();
        };
    if (!valid) {
      throw new BerthException(
          Reason.INVALID, "ask for at least 1 GPU, for all, or for exact ones");
    }
    if (request.getLimit() > MAX_LIMIT || request.getLimit() < 0) {
      throw new BerthException(
          Reason.INVALID, "at most " + MAX_LIMIT + " servers can be asked for");
    }
  }

  private FindGpusResponse among(Roster roster) {
    ServerQuery query = ServerQuery.ofAnyFree(request.getFilter());
    List<Fit> fits = new ArrayList<>();
    for (Listed listed : roster.all()) {
      known++;
      if (query.matches(listed)) {
        passed++;
        consider(listed, fits);
      }
    }
    if (fits.isEmpty()) {
      return FindGpusResponse.newBuilder().setProblem(problem(roster)).build();
    }
    int limit = request.getLimit() == 0 ? DEFAULT_LIMIT : request.getLimit();
    FindGpusResponse.Builder response = FindGpusResponse.newBuilder();
    int bytes = 0;
    for (Fit fit : fits.stream().sorted(Fit.ORDER).limit(limit).toList()) {
      bytes += fit.listed.server().getSerializedSize();
      if (bytes > MAX_BYTES) {
        break;
      }
      response.addCandidates(Candidate.newBuilder().setServer(fit.listed.server()).setNow(fit.now));
    }
    return response.build();
  }

  private void consider(Listed listed, List<Fit> fits) {
    var status = listed.server().getStatus();
    if (status.getDraining() || request.getToRun() && !status.getCanRun()) {
      return;
    }
    serving++;
    List<ListedGpu> fitting =
        listed.gpus().stream().filter(gpu -> gpu.isHealthy() && fits(gpu)).toList();
    mostFitting = Math.max(mostFitting, fitting.size());
    int free = (int) fitting.stream().filter(this::isFreeNow).count();
    boolean noQueue = status.getQueueLength() == 0;
    switch (wanted.getChoiceCase()) {
      case CHOICE_NOT_SET -> fits.add(new Fit(listed, true, free));
      case COUNT -> {
        int count = wanted.getCount() < 0 ? Math.max(1, fitting.size()) : wanted.getCount();
        if (fitting.size() >= count) {
          fits.add(new Fit(listed, noQueue && free >= count, Math.max(0, free - count)));
        }
      }
      case EXACTLY -> {
        List<ListedGpu> named =
            fitting.stream().filter(gpu -> named(gpu).findAny().isPresent()).toList();
        boolean all =
            wanted.getExactly().getIdsList().stream()
                .allMatch(id -> named.stream().anyMatch(gpu -> isNamed(gpu, id)));
        if (all) {
          boolean now = noQueue && named.stream().allMatch(this::isFreeNow);
          fits.add(new Fit(listed, now, Math.max(0, free - named.size())));
        }
      }
    }
  }

  private boolean fits(ListedGpu gpu) {
    return gpu.is(model, wanted.getMinFreeMemoryBytes());
  }

  private boolean isFreeNow(ListedGpu gpu) {
    return gpu.isFree()
        && (gpu.freeMemory() == 0 || gpu.freeMemory() >= wanted.getMinFreeMemoryBytes());
  }

  private Stream<String> named(ListedGpu gpu) {
    return wanted.getExactly().getIdsList().stream().filter(id -> isNamed(gpu, id));
  }

  private static boolean isNamed(ListedGpu gpu, String id) {
    return id.equalsIgnoreCase(gpu.uuid()) || id.equals(Integer.toString(gpu.index()));
  }

  private String problem(Roster roster) {
    if (known == 0) {
      return "no server is registered";
    }
    if (passed == 0) {
      return UnmatchedFilter.sentence(request.getFilter(), roster.all());
    }
    if (serving == 0) {
      return "all " + passed + " servers that fit are draining or cannot run anything";
    }
    return switch (wanted.getChoiceCase()) {
      case COUNT ->
          wanted.getCount() < 0
              ? "no server has a healthy GPU of that kind"
              : wanted.getCount()
                  + (wanted.getCount() == 1 ? " GPU" : " GPUs")
                  + " asked, no server has more than "
                  + mostFitting
                  + " healthy ones"
                  + (model.isEmpty() && wanted.getMinFreeMemoryBytes() == 0 ? "" : " of that kind");
      case EXACTLY ->
          "no server has the GPUs " + String.join(", ", wanted.getExactly().getIdsList());
      case CHOICE_NOT_SET -> "no server can take it";
    };
  }
}
