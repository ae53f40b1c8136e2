package berth.host.state;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;

/**
 * Records of versions before there were checksums. To take them for damaged would end the programs
 * that they tell of.
 */
public final class EarlierVersion {
  private EarlierVersion() {}

  /**
   * Refuses a state folder in which an earlier version has left something that goes on.
   *
   * @throws BerthException CONFLICT, with what to do
   */
  public static void refuse(Path state) {
    try {
      for (Path file : records(state)) {
        if (goesOn(file)) {
          throw new BerthException(
              Reason.CONFLICT,
              file
                  + " is of an earlier version of berthd and has not ended: start that version"
                  + " again and end its runs and reservations, or delete "
                  + state
                  + " if none is left");
        }
      }
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot read the state folder " + state + ": " + e, e);
    }
  }

  private static List<Path> records(Path state) throws IOException {
    Path runs = state.resolve("runs");
    try (Stream<Path> reservations = Files.exists(state) ? Files.list(state) : Stream.empty();
        Stream<Path> folders = Files.exists(runs) ? Files.list(runs) : Stream.empty()) {
      return Stream.concat(
              reservations.filter(file -> file.toString().endsWith(".reservation")),
              folders.map(run -> run.resolve("state")))
          .filter(Files::isRegularFile)
          .toList();
    }
  }

  // They began with the comment that Java writes before properties.
  private static boolean goesOn(Path file) throws IOException {
    try (var in = Files.newInputStream(file)) {
      if (in.read() != '#') {
        return false;
      }
    }
    Properties record = new Properties();
    try (var reader = new InputStreamReader(Files.newInputStream(file), StandardCharsets.UTF_8)) {
      record.load(reader);
    } catch (IllegalArgumentException e) {
      return false;
    }
    return record.containsKey("boot")
        && record.containsKey("id")
        && !"CLEANED".equals(record.getProperty("phase"));
  }
}
