package berth;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/** Which file may mention which package, and what nothing may be called. */
final class Architecture {
  private record Confined(String packageName, Predicate<SourceFile> to, String where) {}

  private static final List<Confined> CONFINED =
      List.of(
          new Confined(
              "io.grpc",
              file ->
                  file.isIn("berth.rpc")
                      || file.path().endsWith("GrpcService.java")
                      || (file.isIn("berth.client")
                              || file.isIn("berth.server.presence")
                              || file.isIn("berth.registry.web"))
                          && file.path().endsWith("Client.java"),
              "berth.rpc, *GrpcService.java, and *Client.java of berth.client,"
                  + " berth.server.presence and berth.registry.web"),
          new Confined(
              "io.netty.handler.codec.http", file -> file.isIn("berth.http"), "berth.http"),
          new Confined(
              "com.sun.jna",
              file ->
                  file.isIn("berth.server.gpu")
                      || file.isIn("berth.server.reservation")
                      || file.isIn("berth.server.run.mount"),
              "berth.server.gpu, berth.server.reservation and berth.server.run.mount"),
          new Confined(
              "com.github.dockerjava",
              file -> file.isIn("berth.server.run.docker"),
              "berth.server.run.docker"),
          new Confined(
              "io.etcd", file -> file.isIn("berth.registry.directory"), "berth.registry.directory"),
          new Confined("io.prometheus", file -> file.isIn("berth.metrics"), "berth.metrics"));

  private static final Map<String, Set<String>> PACKAGES_OF_MODULES =
      Map.of(
          "server", Set.of("berth.server"),
          "registry", Set.of("berth.registry"),
          "client", Set.of("berth.client", "berth.cli"));

  private static final Set<String> EMPTY_PACKAGE_NAMES = Set.of("util", "utils", "common");
  private static final Pattern EMPTY_TYPE_NAME =
      Pattern.compile("\\w*(Util|Utils|Common|Impl|Manager|Helper)");

  private Architecture() {}

  /** What {@code file} does that it may not, one sentence each. */
  static List<String> violations(SourceFile file) {
    List<String> violations = new ArrayList<>();
    for (Confined confined : CONFINED) {
      if (file.mentions(confined.packageName) && !confined.to.test(file)) {
        violations.add(
            file.path() + " uses " + confined.packageName + ", which is for " + confined.where);
      }
    }
    PACKAGES_OF_MODULES.forEach(
        (module, packages) -> {
          if (!file.module().equals(module) && packages.stream().anyMatch(file::mentions)) {
            violations.add(file.path() + " uses the module " + module);
          }
        });
    for (String part : file.packageName().split("\\.")) {
      if (EMPTY_PACKAGE_NAMES.contains(part)) {
        violations.add(file.path() + " is in a package named " + part);
      }
    }
    for (String type : file.types()) {
      if (EMPTY_TYPE_NAME.matcher(type).matches()) {
        violations.add(file.path() + " declares " + type + ", a name that says nothing");
      }
    }
    return violations;
  }
}
