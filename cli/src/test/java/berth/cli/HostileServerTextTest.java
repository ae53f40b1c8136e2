package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.PlainText;
import berth.v1.Owner;
import berth.v1.RunAccepted;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.Server;
import berth.v1.ServerInfo;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What a server says reaches no terminal as it is. */
class HostileServerTextTest {
  private static final String HOSTILE = "a\033[2J\u009b2J\u202eb\r\nberth: forged";
  private static final String CLEANED = "a?[2J?2J?b??berth: forged";
  private static final Path SOURCES = Path.of("src", "main", "java", "berth", "cli");
  // These clean what they print, or print what programs have printed.
  private static final List<String> MAY_PRINT = List.of("Terminal.java", "Screen.java");

  @Test
  void nothingIsPrintedPastTheTerminal() throws IOException {
    try (Stream<Path> files = Files.list(SOURCES)) {
      assertThat(
              files
                  .filter(file -> !MAY_PRINT.contains(file.getFileName().toString()))
                  .filter(
                      file ->
                          code(file).matches("(?s).*System\\.(out|err)\\.print.*")
                              || code(file).contains("printStackTrace")))
          .isEmpty();
    }
  }

  @Test
  void notesAndProgressAreCleaned() {
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    Progress progress = new Progress(new PrintStream(err, true, StandardCharsets.UTF_8), false);
    progress.note(HOSTILE);
    progress.show(HOSTILE);
    assertThat(err.toString(StandardCharsets.UTF_8))
        .isEqualTo("berth: " + CLEANED + "\nberth: " + CLEANED + "\n");
  }

  @Test
  void idsAndMessagesOfARunAreCleaned() {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    RunView view = new RunView(out, err, false, RunView.Detail.ALL);
    view.accept(
        RunEvent.newBuilder().setAccepted(RunAccepted.newBuilder().setRunId(HOSTILE)).build());
    view.accept(
        RunEvent.newBuilder().setExited(RunExited.newBuilder().setMessage(HOSTILE)).build());
    assertThat(err.toString(StandardCharsets.UTF_8))
        .isEqualTo("berth: " + CLEANED + ": " + CLEANED + "\n");
  }

  @Test
  void cellsOfTablesAreCleaned() {
    assertThat(Columns.render(List.of(List.of("A", "B"), List.of(HOSTILE, "x"))))
        .endsWith(CLEANED + "  x\n");
    Server server = Server.newBuilder().setInfo(ServerInfo.newBuilder().setName(HOSTILE)).build();
    assertThat(ServerTable.servers(List.of(server))).contains(CLEANED).hasLineCount(2);
  }

  @Test
  void jsonMeansTheSameAndIsHarmless() throws IOException {
    Owner owner = Owner.newBuilder().setUser(HOSTILE).build();
    String json = JsonOutput.line(owner);
    assertThat(PlainText.isPlain(json)).isTrue();
    Owner.Builder read = Owner.newBuilder();
    com.google.protobuf.util.JsonFormat.parser().merge(json, read);
    assertThat(read.build()).isEqualTo(owner);
  }

  private static String code(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
