package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ServicesTest {
  private static final String TWO =
      """
      services:
        tensorflow:
          image: berth.invalid/tensorflow:2.21
          pull: never
          aliases: [tensorflow-2.21]
          description: TensorFlow 2.21 with Keras
          interpreter: [python3, -u]
          env: {TF_CPP_MIN_LOG_LEVEL: "1", EMPTY: ""}
          shm: 1g            # size of /dev/shm
          memory: 8g
          cpus: 1.5
          processes: 4096
          time: 12h
          ulimits: {memlock: -1, stack: 67108864}
          entrypoint: []
        Caffe:
          image: localhost:5000/caffe:1.0
      """;

  @TempDir private Path folder;

  @Test
  void readsAllThatAServiceCanSay() throws IOException {
    assertThat(load(TWO).find("tensorflow"))
        .isEqualTo(
            new Service(
                "tensorflow",
                List.of("tensorflow-2.21"),
                "berth.invalid/tensorflow:2.21",
                false,
                List.of("python3", "-u"),
                Optional.of(List.of()),
                Map.of("TF_CPP_MIN_LOG_LEVEL", "1", "EMPTY", ""),
                OptionalLong.of(8L << 30),
                OptionalLong.of(1L << 30),
                Optional.of(Duration.ofHours(12)),
                OptionalLong.of(4096),
                OptionalDouble.of(1.5),
                Map.of("memlock", -1L, "stack", 67108864L),
                "TensorFlow 2.21 with Keras"));
  }

  @Test
  void needsNoMoreThanAnImage() throws IOException {
    assertThat(load(TWO).find("caffe"))
        .isEqualTo(
            new Service(
                "Caffe",
                List.of(),
                "localhost:5000/caffe:1.0",
                true,
                List.of(),
                Optional.empty(),
                Map.of(),
                OptionalLong.empty(),
                OptionalLong.empty(),
                Optional.empty(),
                OptionalLong.empty(),
                OptionalDouble.empty(),
                Map.of(),
                ""));
  }

  @Test
  void findsByNameAndAliasInAnyCase() throws IOException {
    Services services = load(TWO);
    assertThat(services.find("TensorFlow-2.21")).isSameAs(services.find("TENSORFLOW"));
    assertThat(services.all()).extracting(Service::name).containsExactly("Caffe", "tensorflow");
  }

  @Test
  void namesThoseThatItKnows() throws IOException {
    Services services = load(TWO);
    assertThatThrownBy(() -> services.find("torch"))
        .hasMessage("there is no service 'torch'; known: caffe, tensorflow, tensorflow-2.21")
        .extracting("reason")
        .isEqualTo(Reason.NOT_FOUND);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "# nothing\n", "services:\n", "services: {}\n"})
  void readsAFileWithoutServices(String text) throws IOException {
    for (Services services : List.of(load(text), Services.none())) {
      assertThat(services.all()).isEmpty();
      assertThatThrownBy(() -> services.find("x"))
          .hasMessage("there is no service 'x'; this server has no services");
    }
  }

  @Test
  void readsTheCatalogueWithAndWithoutWhatIsCommentedOut() throws IOException {
    Path catalogue =
        Path.of(System.getProperty("berth.root"), "server/src/main/config/services.yaml");
    assertThat(Services.load(catalogue).all())
        .extracting(Service::name, Service::image, Service::fetched, Service::aliases)
        .containsExactly(
            tuple("caffe", "berth.invalid/caffe:1.0", false, List.of("caffe-1.0")),
            tuple("pytorch", "berth.invalid/pytorch:2.13", false, List.of("pytorch-2.13")),
            tuple(
                "tensorflow", "berth.invalid/tensorflow:2.21", false, List.of("tensorflow-2.21")));
    String text = Files.readString(catalogue);
    String uncommented = text.substring(text.indexOf("services:\n")).replaceAll("(?m)^#", "");
    assertThat(load(uncommented).find("tensorflow-2.21"))
        .isEqualTo(load(TWO.replace("1.5", "4").replace(", EMPTY: \"\"", "")).find("tensorflow"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "images: {} | 1: unknown key 'images'; known keys: services",
        "[a] | 1: this file takes lines of the form 'key: value'",
        "services: [a] | 1: 'services' takes lines of the form 'name: value'",
        "services: {a: b} | 1: the value of service 'a' takes lines of the form 'key: value'",
        "services:~  a:~    shm: 1g | 2: service 'a' has no 'image'",
        "services:~  a:~    image: | 3: 'image' of service 'a' has no value",
        "services:~  a:~    image: [b] | 3: 'image' of service 'a' takes a single value",
        "services:~  a b:~    image: c:1 |"
            + " 2: 'a b' is not a name of a service: letters, digits and . _ + - only",
        "services:~  a:~    image: c:1~    image: c:2 |"
            + " 4: 'image' of service 'a' is given twice",
        "services:~  a:~    image: c:1~    gpus: 2 |"
            + " 4: unknown key 'gpus' of service 'a'; known keys: aliases, cpus, description,"
            + " entrypoint, env, image, interpreter, memory, processes, pull, shm, time, ulimits",
        "services:~  a: {image: 'c:1'}~  A: {image: 'c:1'} |"
            + " 3: the name 'A' of service 'A' is taken by service 'a'; upper and lower case are"
            + " the same",
        "services:~  a: {image: 'c:1', aliases: [x]}~  b: {image: 'c:1', aliases: [X]} |"
            + " 3: the name 'X' of service 'b' is taken by service 'a'; upper and lower case are"
            + " the same",
        "services:~  a: {image: 'c:1', aliases: [a]} |"
            + " 2: the name 'a' of service 'a' is taken by service 'a'; upper and lower case are"
            + " the same",
        "services:~  a:~    image: c:1~    memory: 8 |"
            + " 4: 'memory' of service 'a': '8' is not an amount of memory such as 512m or 20g",
        "services:~  a:~    image: c:1~    shm: 0g | 4: 'shm' of service 'a': '0g' must be more"
            + " than 0",
        "services:~  a:~    image: c:1~    time: 0s |"
            + " 4: 'time' of service 'a': '0s' must be more than 0",
        "services:~  a:~    image: c:1~    time: never | 4: 'time' of service 'a': 'never' is not a"
            + " duration such as 30s, 10m or 1h30m",
        "services:~  a:~    image: c:1~    cpus: 0 |"
            + " 4: 'cpus' of service 'a': '0' is not a number of CPUs such as 4 or 1.5",
        "services:~  a:~    image: c:1~    processes: 0 |"
            + " 4: 'processes' of service 'a': '0' is not an integer of at least 1",
        "services:~  a:~    image: c:1~    ulimits: {memlock: -2} |"
            + " 4: 'ulimits' of service 'a': '-2' is not an integer of at least -1",
        "services:~  a:~    image: c:1~    ulimits: {mem: 1} |"
            + " 4: 'ulimits' of service 'a': unknown limit 'mem'; known limits: core, cpu, data,"
            + " fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime,"
            + " sigpending, stack",
        "services:~  a:~    image: c:1~    env: {A=B: 1} |"
            + " 4: 'env' of service 'a': 'A=B' is not a valid variable name",
        "services:~  a:~    image: c:1~    env: {A: 1, A: 2} |"
            + " 4: 'A' is given twice in 'env' of service 'a'",
        "services:~  a:~    image: c:1~    interpreter: python3 |"
            + " 4: 'interpreter' of service 'a' takes a list such as [a, b]",
        "services:~  a:~    image: c:1~    interpreter: [[x]] |"
            + " 4: a word in 'interpreter' of service 'a' takes a single value",
        "services:~  a:~    image: caffe:latest | 3: 'image' of service 'a': the image"
            + " 'caffe:latest' has the tag 'latest', which may change every day: name a version or"
            + " a digest",
        "services:~  a:~    image: localhost:5000/caffe | 3: 'image' of service 'a': the image"
            + " 'localhost:5000/caffe' has no tag, and 'latest' may change every day: name a"
            + " version, for example 'localhost:5000/caffe:1.0'",
        "services:~  a:~    image: 'not an image' |"
            + " 3: 'image' of service 'a': 'not an image' is not the name of an image such as"
            + " busybox:1.35",
      })
  void tellsTheMistakeAndItsPlace(String text, String message) {
    assertThatThrownBy(() -> load(text.replace('~', '\n')))
        .hasMessage(folder.resolve("services.yaml") + ":" + message)
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void tellsWhatIsNotYaml() {
    assertThatThrownBy(() -> load("services:\n  a: {image\n"))
        .hasMessageStartingWith(folder.resolve("services.yaml") + ":3: not YAML: ");
  }

  @Test
  void tellsThatThereIsNoFile() {
    Path missing = folder.resolve("missing.yaml");
    assertThatThrownBy(() -> Services.load(missing))
        .hasMessage("there is no services file " + missing);
    assertThatThrownBy(() -> Services.load(folder))
        .hasMessageStartingWith("cannot read the services file " + folder);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "busybox:1.35",
        "berth.invalid/tensorflow:2.21",
        "nvcr.io/nvidia/pytorch:24.05-py3",
        "localhost:5000/a/b_c/d--e:v1",
        "caffe@sha256:0123456789012345678901234567890123456789012345678901234567890123",
        "caffe:latest@sha256:0123456789012345678901234567890123456789012345678901234567890123"
      })
  void takesImagesByTagOrDigest(String image) {
    assertThat(ImageName.problem(image)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", "busybox", "busybox:latest", "-x:1", "a:1:2", "a@sha256:12", "a:1 b", "/a:1"})
  void refusesOtherImages(String image) {
    assertThat(ImageName.problem(image)).isPresent();
  }

  private Services load(String text) throws IOException {
    return Services.load(Files.writeString(folder.resolve("services.yaml"), text));
  }
}
