package berth.e2e.bench;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/**
 * Makes a year of a server's runs out of one that has ended and one that waits: copies of their
 * folders under other names. {@code scripts/bench.sh} runs it, and measures the server then.
 */
final class YearBench {
  private static final Instant START = Instant.parse("2026-01-01T00:00:00Z");

  private YearBench() {}

  /** Arguments: the folder of runs, the number of ended runs, the number of waiting ones. */
  public static void main(String[] args) throws IOException {
    Path runs = Path.of(args[0]);
    int ended = Integer.parseInt(args[1]);
    int waiting = Integer.parseInt(args[2]);
    List<Path> models;
    try (Stream<Path> all = Files.list(runs)) {
      models = all.toList();
    }
    for (Path model : models) {
      Properties state = properties(model);
      boolean over = state.getProperty("phase").equals("CLEANED");
      int count = over ? ended : waiting;
      for (int i = 1; i < count; i++) {
        copy(model, state, runs, over ? i : ended + i);
      }
    }
  }

  private static void copy(Path model, Properties state, Path runs, int number) throws IOException {
    String id = "run-" + HexFormat.of().toHexDigits(0x1000000000L + number, 10);
    Path folder = Files.createDirectory(runs.resolve(id));
    for (String name : new String[] {"request", "content"}) {
      if (Files.exists(model.resolve(name))) {
        Files.copy(model.resolve(name), folder.resolve(name));
      }
    }
    for (String name : new String[] {"spool", "work"}) {
      if (Files.exists(model.resolve(name))) {
        Files.createDirectory(folder.resolve(name));
        try (Stream<Path> files = Files.list(model.resolve(name))) {
          for (Path file : files.toList()) {
            Files.copy(file, folder.resolve(name).resolve(file.getFileName()));
          }
        }
      }
    }
    Properties own = new Properties();
    own.putAll(state);
    own.setProperty("id", id);
    own.setProperty("number", Integer.toString(number));
    own.setProperty("accepted", START.plusSeconds(number).toString());
    own.setProperty("kept-bytes", "40960");
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    own.store(out, null);
    byte[] content = out.toByteArray();
    CRC32C sum = new CRC32C();
    sum.update(content);
    String header =
        "berth-record 1 "
            + HexFormat.of().toHexDigits((int) sum.getValue())
            + " "
            + content.length
            + "\n";
    byte[] line = header.getBytes(StandardCharsets.US_ASCII);
    byte[] whole = Arrays.copyOf(line, line.length + content.length);
    System.arraycopy(content, 0, whole, line.length, content.length);
    Files.write(folder.resolve("state"), whole);
  }

  private static Properties properties(Path run) throws IOException {
    byte[] file = Files.readAllBytes(run.resolve("state"));
    int start = 0;
    while (file[start++] != '\n') {
      // The checksum.
    }
    Properties state = new Properties();
    state.load(new ByteArrayInputStream(file, start, file.length - start));
    return state;
  }
}
