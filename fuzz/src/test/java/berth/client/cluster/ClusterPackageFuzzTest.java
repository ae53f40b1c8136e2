package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.spec.Program;
import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** A package whose description is the input, beside files that a package has. */
class ClusterPackageFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final String DESCRIPTION = "cluster.json";

  static Stream<byte[]> seeds() throws IOException {
    Path scratch = SCRATCH.empty();
    Path packed = write(scratch);
    return Stream.of(Files.readAllBytes(packed.resolve(DESCRIPTION)));
  }

  @MethodSource("seeds")
  @FuzzTest
  void leadsNowhereButIntoItsOwnFolders(byte[] data) throws Exception {
    Path scratch = SCRATCH.empty();
    Path packed = write(scratch);
    Files.write(packed.resolve(DESCRIPTION), data);
    Path unpacked = scratch.resolve("unpacked");

    Optional<ClusterRequest> read = Inputs.accepted(() -> read(packed, unpacked)).flatMap(r -> r);

    assertThat(scratch.resolve("secret")).hasContent("secret");
    try (var left = Files.list(scratch)) {
      assertThat(left.map(path -> path.getFileName().toString()).toList())
          .isSubsetOf("secret", "files", "watch.sh", "package", "unpacked");
    }
    for (Path named : named(read)) {
      Path real = Files.exists(named) ? named.toRealPath() : named.normalize();
      assertThat(real.startsWith(packed) || real.startsWith(unpacked))
          .as("%s is a file of the package", named)
          .isTrue();
    }
  }

  private static Optional<ClusterRequest> read(Path packed, Path unpacked) {
    try {
      return Optional.of(ClusterPackage.read(packed, unpacked));
    } catch (IOException e) {
      // A file of the package that is not there.
      return Optional.empty();
    }
  }

  /** What a cluster would read of this machine. */
  private static List<Path> named(Optional<ClusterRequest> request) {
    List<Path> paths = new ArrayList<>();
    for (TaskGroup group : request.map(ClusterRequest::groups).orElse(List.of())) {
      Program program = group.run().program();
      program.bundle().ifPresent(paths::add);
      if (program.bundle().isEmpty() && !program.isCommand() && !program.words().isEmpty()) {
        paths.add(Path.of(program.words().get(0)));
      }
    }
    return paths;
  }

  private static Path write(Path scratch) throws IOException {
    Files.writeString(scratch.resolve("secret"), "secret");
    Path files = Files.createDirectory(scratch.resolve("files"));
    Files.writeString(files.resolve("train.py"), "print(1)");
    Path script = Files.writeString(scratch.resolve("watch.sh"), "#!/bin/sh\n");
    Path packed = Files.createDirectory(scratch.resolve("package"));
    ClusterPackage.write(
        ClusterRequest.named("study")
            .task("chief", 1, run -> run.service("a").files(files).script("train.py").gpus(1))
            .task("worker", 1, run -> run.image("a:1").script(script.toString(), "-v"))
            .task("ps", 1, run -> run.image("a:1").command("serve", "{port}"))
            .build(),
        packed);
    return packed;
  }
}
