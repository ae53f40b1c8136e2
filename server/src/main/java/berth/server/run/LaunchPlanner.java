package berth.server.run;

import static berth.server.run.RequestedRun.invalid;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation;
import berth.server.run.RequestedRun.Code;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** Decides what is to be started for a run: service, interpreter, folders, limits. */
final class LaunchPlanner {
  private final String serverName;
  private final Services services;
  private final MountRules mounts;
  private final UidRange supervisors;
  private final Bundles bundles;

  /**
   * @param supervisors users that no program may be
   */
  LaunchPlanner(
      String serverName,
      Services services,
      MountRules mounts,
      UidRange supervisors,
      Bundles bundles) {
    this.serverName = serverName;
    this.services = services;
    this.mounts = mounts;
    this.supervisors = supervisors;
    this.bundles = bundles;
  }

  /**
   * The folders of this machine that a run asks to see, as they are to be mounted. Looks at each of
   * them, which may take a while: not to be called by those who keep others waiting.
   *
   * @throws berth.rpc.BerthException if one may not be mounted, or cannot be looked at
   */
  List<Launch.Bind> binds(List<RequestedRun.Mount> asked) {
    RequestedRun.checkMounts(asked.size());
    return asked.stream()
        .map(
            mount ->
                new Launch.Bind(
                    mounts.check(Path.of(mount.source()), mount.readOnly()),
                    mount.target(),
                    mount.readOnly()))
        .toList();
  }

  /**
   * What to start.
   *
   * @param binds what {@link #binds} says of its mounts
   * @param reservation what the run has got; empty if it asked for nothing, or has nothing yet
   * @throws berth.rpc.BerthException if it can never be started here
   */
  Launch plan(
      String runId,
      RunFolder folder,
      RequestedRun spec,
      List<Launch.Bind> binds,
      Optional<Reservation> reservation) {
    spec.user().ifPresent(supervisors::refuse);
    Optional<Service> service = spec.service().map(services::find);
    spec.image()
        .flatMap(ImageName::problem)
        .ifPresent(
            problem -> {
              throw invalid(problem);
            });
    if (spec.code() instanceof Code.Bundle bundle) {
      if (!bundles.has(bundle.digest())) {
        throw new BerthException(
            Reason.NOT_FOUND,
            "there is no bundle " + bundle.digest() + " on " + serverName + "; upload it first");
      }
    }
    Optional<String> image = spec.image().or(() -> service.map(Service::image));
    Map<String, String> env = new TreeMap<>(service.map(Service::env).orElse(Map.of()));
    env.putAll(spec.env());
    env.put("BERTH_RUN_ID", runId);
    env.put("BERTH_SERVER", serverName);
    reservation
        .filter(held -> !held.ports().isEmpty())
        .ifPresent(
            held ->
                env.put(
                    "BERTH_PORTS",
                    held.ports().stream().map(String::valueOf).collect(Collectors.joining(","))));
    return new Launch(
        runId,
        folder,
        image,
        image.flatMap(this::whyNeverFetched),
        spec.entrypoint().or(() -> service.flatMap(Service::entrypoint)),
        command(spec, service),
        env,
        spec.workingDir(),
        spec.user(),
        spec.network(),
        binds,
        service.map(spec.limits()::or).orElse(spec.limits()),
        service.map(Service::ulimits).orElse(Map.of()),
        reservation.map(Reservation::gpus).orElse(List.of()),
        spec.owner(),
        spec.name());
  }

  // By whatever way it was named: what is fetched once is there for all.
  private Optional<String> whyNeverFetched(String image) {
    if (ImageName.isBuiltHere(image)) {
      return Optional.of("it is never pulled; build it with scripts/build-images.sh, or load it");
    }
    if (ImageName.isFormerlyBuiltHere(image)) {
      return Optional.of(
          "images named berth/... are never pulled, since Docker Hub may have others of that name;"
              + " build it with scripts/build-images.sh and name it berth.invalid/..., also in the"
              + " services file");
    }
    return services
        .forbiddingToFetch(image)
        .map(
            service ->
                "service '"
                    + service.name()
                    + "' sets 'pull: never'; build or load it on this server");
  }

  /** Puts the files of a bundle where the program finds them. May take minutes. */
  void bringBundle(RunFolder folder, Code.Bundle bundle) {
    try {
      unpack(bundle, folder.work());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Puts what came with the request there too, in place of what the bundle has of that name. */
  void bringFiles(RunFolder folder, RequestedRun spec) {
    try {
      if (spec.code() instanceof Code.Source source) {
        WorkFiles.put(folder.work(), source.fileName(), source.content());
      }
      for (Map.Entry<String, byte[]> file : spec.files().entrySet()) {
        WorkFiles.put(folder.work(), file.getKey(), file.getValue());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Gives all that was brought to the user that the program will be, if it names one. */
  void handOver(Launch launch) {
    try {
      if (launch.user().isPresent()) {
        WorkFiles.own(launch.folder().work(), launch.user().get().uid(), launch.user().get().gid());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  // What is half there would keep the room that it may have to wait for.
  private void unpack(Code.Bundle bundle, Path work) throws IOException {
    try {
      bundles.unpack(bundle.digest(), work);
    } catch (BerthException e) {
      WorkFiles.delete(work);
      throw e;
    }
  }

  private static List<String> command(RequestedRun spec, Optional<Service> service) {
    if (!(spec.code() instanceof Code.Source source)) {
      return spec.command();
    }
    List<String> interpreter = source.interpreter();
    if (interpreter.isEmpty()) {
      interpreter = service.map(Service::interpreter).orElse(List.of());
    }
    if (interpreter.isEmpty()) {
      interpreter = firstLine(source);
    }
    if (interpreter.isEmpty()) {
      throw invalid(
          "no interpreter for "
              + source.fileName()
              + ": use a service that has one, --interpreter, or a #! line");
    }
    List<String> words = new ArrayList<>(interpreter);
    // As a path, so that no name is taken for an option or looked for elsewhere.
    words.add(
        RequestedRun.WORK.equals(spec.workingDir())
            ? "./" + source.fileName()
            : RequestedRun.WORK + "/" + source.fileName());
    words.addAll(spec.command());
    return words;
  }

  private static List<String> firstLine(Code.Source source) {
    String line =
        new String(source.content(), StandardCharsets.UTF_8).lines().findFirst().orElse("");
    return line.startsWith("#!") ? List.of(line.substring(2).trim().split("\\s+")) : List.of();
  }
}
