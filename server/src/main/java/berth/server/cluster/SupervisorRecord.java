package berth.server.cluster;

import berth.host.state.RecordFile;
import berth.rpc.Address;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What a restarted daemon must know of the supervisor of a cluster.
 *
 * @param starts how often one was started
 * @param registries what the last one was told; before the first, what the next one is told if no
 *     other registry is known then
 * @param process the last one; empty before the first
 */
record SupervisorRecord(int starts, List<Address> registries, Optional<SupervisorProcess> process) {
  SupervisorRecord {
    registries = List.copyOf(registries);
  }

  /** Before the first start. */
  static SupervisorRecord none(List<Address> registries) {
    return new SupervisorRecord(0, registries, Optional.empty());
  }

  SupervisorRecord started(SupervisorProcess next, List<Address> told) {
    return new SupervisorRecord(starts + 1, told, Optional.of(next));
  }

  /** How often it was started again. */
  int restarts() {
    return Math.max(0, starts - 1);
  }

  boolean alive() {
    return process.map(SupervisorProcess::alive).orElse(false);
  }

  byte[] bytes() {
    Properties properties = new Properties();
    properties.setProperty("starts", "" + starts);
    properties.setProperty("registries", words(registries));
    process.ifPresent(
        last -> {
          properties.setProperty("boot", last.boot());
          properties.setProperty("pid", "" + last.pid());
          properties.setProperty("started", "" + last.started());
        });
    return RecordFile.content(properties);
  }

  /**
   * @throws IOException if these are no record
   */
  static SupervisorRecord read(Properties properties) throws IOException {
    try {
      return new SupervisorRecord(
          Integer.parseInt(properties.getProperty("starts")),
          Stream.of(properties.getProperty("registries").split(","))
              .filter(word -> !word.isEmpty())
              .map(word -> Address.parse(word, 0))
              .toList(),
          Optional.ofNullable(properties.getProperty("boot"))
              .map(
                  boot ->
                      new SupervisorProcess(
                          boot,
                          Integer.parseInt(properties.getProperty("pid")),
                          Long.parseLong(properties.getProperty("started")))));
    } catch (RuntimeException e) {
      throw new IOException("not the record of a supervisor: " + e, e);
    }
  }

  /** As supervisors are told them. */
  static String words(List<Address> registries) {
    return registries.stream().map(Address::toString).collect(Collectors.joining(","));
  }
}
