package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Scratch;
import berth.rpc.Vitals;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** In which order a run that is over printed on its two streams is the input. */
class SpoolFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final SpoolWatch WATCH = new SpoolWatch(new Vitals());
  // Less than some of what was printed at once.
  private static final int MOST = 5;

  static Stream<byte[]> seeds() throws IOException {
    RunFolder both = folder();
    try (Spool spool = new Spool(both, WATCH)) {
      for (int i = 0; i < 3; i++) {
        print(both, spool, OutputStreamKind.STDOUT, "epoch " + i + "\n");
        print(both, spool, OutputStreamKind.STDERR, "warning\n");
      }
    }
    byte[] turns = Files.readAllBytes(order(both));
    RunFolder one = folder();
    try (Spool spool = new Spool(one, WATCH)) {
      print(one, spool, OutputStreamKind.STDERR, "warning\n");
    }
    return Stream.of(turns, Files.readAllBytes(order(one)));
  }

  @MethodSource("seeds")
  @FuzzTest
  void losesNothingThatWasPrinted(byte[] data) throws Exception {
    RunFolder folder = folder();
    Map<OutputStreamKind, String> printed = new EnumMap<>(OutputStreamKind.class);
    printed.put(OutputStreamKind.STDOUT, "epoch 0\nepoch 1\nepoch 2\n");
    printed.put(OutputStreamKind.STDERR, "warning\nwarning\nwarning\n");
    for (OutputStreamKind stream : OutputStreamKind.values()) {
      Files.writeString(folder.spool().resolve(stream.fileName()), printed.get(stream));
    }
    Files.writeString(folder.spool().resolve("complete"), "");
    Files.write(order(folder), data);

    Map<OutputStreamKind, String> first;
    try (Spool spool = new Spool(folder, WATCH)) {
      spool.refresh();
      first = read(spool);
    }
    assertThat(first).isEqualTo(printed);
    // What was told once is told again.
    try (Spool again = new Spool(folder, WATCH)) {
      assertThat(read(again)).isEqualTo(printed);
    }
  }

  private static Map<OutputStreamKind, String> read(Spool spool) {
    Map<OutputStreamKind, ByteArrayOutputStream> read = new EnumMap<>(OutputStreamKind.class);
    long offset = 0;
    for (Optional<Spool.Chunk> next = spool.read(0, MOST);
        next.isPresent();
        next = spool.read(offset, MOST)) {
      byte[] bytes = new byte[next.get().data().remaining()];
      next.get().data().get(bytes);
      // Else a reader would ask for the same for ever.
      assertThat(bytes).isNotEmpty();
      read.computeIfAbsent(next.get().stream(), stream -> new ByteArrayOutputStream())
          .writeBytes(bytes);
      offset += bytes.length;
      assertThat(offset).isLessThanOrEqualTo(spool.total());
    }
    assertThat(offset).isEqualTo(spool.total());
    Map<OutputStreamKind, String> texts = new EnumMap<>(OutputStreamKind.class);
    read.forEach((stream, bytes) -> texts.put(stream, bytes.toString()));
    return texts;
  }

  private static void print(RunFolder folder, Spool spool, OutputStreamKind stream, String text)
      throws IOException {
    Files.writeString(folder.spool().resolve(stream.fileName()), text, StandardOpenOption.APPEND);
    spool.refresh();
  }

  private static RunFolder folder() throws IOException {
    RunFolder folder = new RunFolder(SCRATCH.empty().resolve("run-0000000001"));
    folder.createForProgram();
    return folder;
  }

  private static Path order(RunFolder folder) {
    return folder.spool().resolve("order");
  }
}
