package berth.client.cluster;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

class ClusterFileFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static Path file;

  @BeforeAll
  static void makeFilesThatItMayName() throws IOException {
    Path folder = SCRATCH.empty();
    Files.writeString(folder.resolve("train.py"), "print(1)");
    file = folder.resolve("cluster.yaml");
  }

  static Stream<byte[]> seeds() {
    return Stream.of(
            """
            name: digits
            service: tensorflow
            files: .
            script: train.py --epochs 3
            pip: [keras, "numpy>=1"]
            env: {A: "1"}
            mounts: [/data:/data:ro]
            wait: 10m
            time: 1h
            signal: USR1@60s
            success: 80%
            restart: on-failure
            tasks:
              chief: {gpus: 1}
              worker: {instances: 4, gpus: 1, model: A100, min-gpu-memory: 20g}
              ps: {instances: 2, memory: 8g, cpus: 1.5, idle: 5%@30m, background: true}
            """,
            """
            base: &base {gpus: 1}
            image: a/b:1
            command: [python, -c, "print(1)"]
            entrypoint: tini --
            interpreter: python3 -u
            labels: {room: b12}
            exclude: [gpu9]
            servers: [gpu1]
            shm: 1g
            layout: spread
            clean: ps
            ttl: 1d
            checkpoints: /nfs
            resubmit: 2
            max-restarts: 3
            restart-scope: cluster
            restart-pause: 3s
            start-timeout: 5m
            stop-grace: 10s
            evaluator-grace: 10s
            tasks:
              worker: {<<: *base, instances: 2, max-restarts: 1, restart: always}
              evaluator:
              tensorboard: {command: "tensorboard --logdir /nfs"}
            """,
            "tasks: {worker: {gpus: all}}")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isReadOrRefusedWithASentence(byte[] data) throws Exception {
    String text = new String(data, StandardCharsets.UTF_8);
    Inputs.accepted(() -> ClusterFile.parse(file, text));
  }
}
