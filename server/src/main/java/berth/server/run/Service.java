package berth.server.run;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * A name that the administrator gave an image, with what is usual for it.
 *
 * @param fetched whether the image is fetched where it is missing; false for one that was built
 *     here, which somebody else might offer under the same name; then it is fetched for nobody
 * @param interpreter what runs source files; empty if nothing is said about that
 * @param entrypoint replaces the image's; present and empty: none
 * @param ulimits soft and hard limits by docker's names; -1 for no limit
 */
record Service(
    String name,
    List<String> aliases,
    String image,
    boolean fetched,
    List<String> interpreter,
    Optional<List<String>> entrypoint,
    Map<String, String> env,
    OptionalLong memoryBytes,
    OptionalLong sharedMemoryBytes,
    Optional<Duration> time,
    OptionalLong processes,
    OptionalDouble cpus,
    Map<String, Long> ulimits,
    String description) {

  Service {
    aliases = List.copyOf(aliases);
    interpreter = List.copyOf(interpreter);
    entrypoint = entrypoint.map(List::copyOf);
    env = Map.copyOf(env);
    ulimits = Map.copyOf(ulimits);
  }
}
