package berth.server.run;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class ServicesFileFuzzTest {
  private static final Scratch SCRATCH = new Scratch();

  static Stream<byte[]> seeds() {
    return Stream.of(
            """
            services:
              tensorflow:
                image: berth.invalid/tensorflow:2.21
                aliases: [tf, tensorflow-2.21]
                interpreter: [python3, -u]
                entrypoint: [tini, --]
                env: {TF_CPP_MIN_LOG_LEVEL: "1"}
                memory: 20g
                shm: 1g
                time: 1d
                processes: 500
                cpus: 1.5
                ulimits: {memlock: -1, nofile: 65536}
                description: TensorFlow 2
            """,
            "services: {a: &x {image: a}, b: {<<: *x}}",
            "services:\n")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isReadOrRefusedWithASentence(byte[] data) throws Exception {
    Path file = Files.write(SCRATCH.empty().resolve("services.yaml"), data);
    Inputs.accepted(() -> Services.load(file));
  }
}
