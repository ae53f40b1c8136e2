package berth.cli;

import static berth.cli.SampleCluster.CHIEF;
import static berth.cli.SampleCluster.WORKER_0;
import static berth.cli.SampleCluster.WORKER_1;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.cluster.TaskName;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClusterLogsTest {
  @TempDir private Path folder;

  private final List<String> notes = new ArrayList<>();

  @Test
  void keepsTheOutputOfEachTaskByteForByte() throws IOException {
    byte[] noText = {(byte) 0xff, 0, '\r', '\n', (byte) 0xc3};
    try (ClusterLogs logs = in(folder.resolve("a/b"))) {
      logs.output(WORKER_1, bytes("one"));
      logs.output(CHIEF, noText);
      logs.output(WORKER_1, bytes(" line"));
      assertThat(folder.resolve("a/b/worker-1.log")).hasContent("one line");
    }

    assertThat(folder.resolve("a/b/chief-0.log")).hasBinaryContent(noText);
    assertThat(files("a/b")).containsExactly("chief-0.log", "worker-1.log");
  }

  @Test
  void keepsTheAddressesToo() throws IOException {
    try (ClusterLogs logs = in(folder)) {
      logs.spec(SampleCluster.formed(SampleCluster.request()).spec());
    }

    assertThat(Files.readString(folder.resolve("cluster.json")))
        .isEqualTo(
            "{\"chief\":[\"10.0.0.0:2220\"],\"worker\":[\"10.0.0.1:2221\",\"10.0.0.2:2222\"],"
                + "\"ps\":[\"10.0.0.3:2223\"]}\n");
    assertThat(Files.readString(folder.resolve("cluster.csv")))
        .isEqualTo(
            """
            10.0.0.0,2220,chief
            10.0.0.1,2221,worker
            10.0.0.2,2222,worker
            10.0.0.3,2223,ps
            """);
  }

  @Test
  void whatWasThereOfAnEarlierTrainingIsReplaced() throws IOException {
    Files.writeString(folder.resolve("worker-0.log"), "old and long");
    try (ClusterLogs logs = in(folder)) {
      logs.output(WORKER_0, bytes("new"));
    }

    assertThat(folder.resolve("worker-0.log")).hasContent("new");
  }

  @Test
  void moreTasksThanFilesMayBeOpen() throws IOException {
    try (ClusterLogs logs = in(folder)) {
      for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 1200; i++) {
          logs.output(new TaskName("worker", i), bytes(round + ":" + i + "\n"));
        }
      }
    }

    assertThat(notes).isEmpty();
    for (int i = 0; i < 1200; i++) {
      assertThat(folder.resolve("worker-" + i + ".log")).hasContent("0:" + i + "\n1:" + i + "\n");
    }
  }

  @Test
  void aFailureStopsTheLogsAndIsToldOnce() throws IOException {
    Files.createDirectory(folder.resolve("worker-0.log"));
    try (ClusterLogs logs = in(folder)) {
      logs.output(WORKER_0, bytes("a"));
      logs.output(WORKER_0, bytes("b"));
      logs.output(WORKER_1, bytes("c"));
    }

    assertThat(notes)
        .singleElement()
        .asString()
        .startsWith("no more logs: cannot write in " + folder + ": ");
    assertThat(folder.resolve("worker-1.log")).doesNotExist();
  }

  @Test
  void leavesNoEmptyFolderBehind() {
    in(folder.resolve("a")).close();

    assertThat(folder.resolve("a")).doesNotExist();
    assertThat(notes).isEmpty();
  }

  @Test
  void refusesAFolderThatCannotBe() throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "");

    assertThatThrownBy(() -> in(file))
        .hasMessage(
            "cannot keep logs in "
                + file
                + ": File exists; choose another folder with --log-dir DIR, or use --no-logs");
  }

  @Test
  void twoInTheSameSecondHaveFoldersOfTheirOwn() throws IOException {
    LocalDateTime now = LocalDateTime.of(2026, 3, 4, 5, 6, 7);
    Path first = Files.createDirectory(ClusterLogs.usual(folder, "mnist", now));

    assertThat(first).isEqualTo(folder.resolve("mnist-20260304-050607"));
    assertThat(ClusterLogs.usual(folder, "mnist", now))
        .isEqualTo(folder.resolve("mnist-20260304-050607-2"));
  }

  private ClusterLogs in(Path where) {
    return ClusterLogs.in(where, notes::add);
  }

  private List<String> files(String below) throws IOException {
    try (var files = Files.list(folder.resolve(below))) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
