package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.SimilarName;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The images that the administrator has named. */
public final class Services {
  private final List<Service> all;
  private final Map<String, Service> byName = new TreeMap<>();

  private Services(List<Service> services) {
    all = services.stream().sorted(Comparator.comparing(Service::name)).toList();
    for (Service service : all) {
      byName.put(key(service.name()), service);
      service.aliases().forEach(alias -> byName.put(key(alias), service));
    }
  }

  public static Services none() {
    return new Services(List.of());
  }

  /**
   * @throws BerthException INVALID if the file cannot be read or has a mistake, with its place
   */
  public static Services load(Path file) {
    return new Services(new ServicesFile(file).read());
  }

  /**
   * Finds a service by its name or an alias; upper and lower case are the same.
   *
   * @throws BerthException NOT_FOUND if there is none
   */
  Service find(String name) {
    Service service = byName.get(key(name));
    if (service == null) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no service '"
              + name
              + "'; "
              + (all.isEmpty()
                  ? "this server has no services"
                  : SimilarName.to(name, byName.keySet())
                          .map(similar -> "did you mean '" + similar + "'? Known: ")
                          .orElse("known: ")
                      + String.join(", ", byName.keySet())));
    }
    return service;
  }

  /** A service whose image must never be fetched, and is the one of this name. */
  Optional<Service> forbiddingToFetch(String image) {
    return all.stream()
        .filter(service -> !service.fetched() && ImageName.same(service.image(), image))
        .findFirst();
  }

  /** All services by name. */
  List<Service> all() {
    return all;
  }

  /** What is the same for names that differ in upper and lower case only. */
  static String key(String name) {
    return name.toLowerCase(Locale.ROOT);
  }
}
