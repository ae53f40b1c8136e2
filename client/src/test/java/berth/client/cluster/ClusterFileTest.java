package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.spec.IdleLimit;
import berth.client.spec.Program;
import berth.client.spec.RunSpec;
import berth.client.spec.Warning;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ClusterFileTest {
  private static final String WHOLE =
      """
      name: study
      service: tensorflow
      files: .
      script: train.py --epochs 3 "a b"
      interpreter: [python3, -u]
      entrypoint: []
      pip: [keras-tuner, ./wheels/mine.whl]
      env: {A: "1", B: all}
      mounts: [/data:/data:ro, /scratch]
      labels: {room: b12}
      servers: [gpu1, gpu2]
      exclude: [gpu9]
      time: 2h
      wait: 30m
      start-timeout: 5m
      stop-grace: 20s
      evaluator-grace: 2m
      layout: pack
      shm: 1g
      tasks:
        chief: {gpus: 1, memory: 2g, cpus: 1.5}
        worker:
          instances: 8
          gpus: all
          model: A100
          min-gpu-memory: 40g
          env: {B: mine, C: "3"}
          labels: {rack: r1}
          mounts: [/more:/in]
          servers: [gpu3]
          exclude: [gpu8]
          pip: []
          shm: 2g
          image: tf:2.21
          entrypoint: [tini, --]
          interpreter: python3 -O
        ps: {instances: 2, memory: 8g, command: [serve, --port, "{port}"], background: false}
        evaluator: {}
        logger: {script: logs.sh, background: true}
        tensorboard: {command: "tensorboard --logdir /data/logs --port {port}", service: board}
      """;

  @TempDir private Path folder;

  @BeforeEach
  void makeFiles() throws IOException {
    Files.createDirectories(folder.resolve("wheels"));
    for (String file : List.of("train.py", "logs.sh", "wheels/mine.whl")) {
      Files.writeString(folder.resolve(file), "");
    }
  }

  @Test
  void readsAllThatCanBeSaid() {
    ClusterRequest request = parse(WHOLE);

    assertThat(request)
        .isEqualTo(
            ClusterRequest.named("study")
                .all(
                    run ->
                        run.service("tensorflow")
                            .files(file().resolveSibling("."))
                            .script("train.py", "--epochs", "3", "a b")
                            .interpreter(List.of("python3", "-u"))
                            .entrypoint(List.of())
                            .pip(List.of("keras-tuner", "./wheels/mine.whl"))
                            .env("A", "1")
                            .env("B", "all")
                            .mount("/data", "/data", true)
                            .mount("/scratch", "/scratch", false)
                            .label("room", "b12")
                            .exclude("gpu9")
                            .sharedMemory("1g"))
                .task("chief", 1, run -> run.servers("gpu1", "gpu2").gpus(1).memory("2g").cpus(1.5))
                .task(
                    "worker",
                    8,
                    run ->
                        run.servers("gpu3")
                            .allGpus()
                            .gpuModel("A100")
                            .minGpuMemory("40g")
                            .env("B", "mine")
                            .env("C", "3")
                            .label("rack", "r1")
                            .mount("/more", "/in", false)
                            .exclude("gpu8")
                            .pip(List.of())
                            .sharedMemory("2g")
                            .image("tf:2.21")
                            .entrypoint(List.of("tini", "--"))
                            .interpreter(List.of("python3", "-O")))
                .task(
                    "ps",
                    2,
                    run ->
                        run.servers("gpu1", "gpu2")
                            .memory("8g")
                            .command("serve", "--port", "{port}"))
                .background("ps", false)
                .task("evaluator", 1, run -> run.servers("gpu1", "gpu2"))
                .task("logger", 1, run -> run.servers("gpu1", "gpu2").script("logs.sh"))
                .background("logger", true)
                .task(
                    "tensorboard",
                    1,
                    run ->
                        run.servers("gpu1", "gpu2")
                            .service("board")
                            .command("tensorboard", "--logdir", "/data/logs", "--port", "{port}"))
                .layout(ClusterRequest.Layout.PACK)
                .timeLimit(Duration.ofHours(2))
                .waitAtMost(Duration.ofMinutes(30))
                .startTimeout(Duration.ofMinutes(5))
                .stopGrace(Duration.ofSeconds(20))
                .evaluatorGrace(Duration.ofMinutes(2))
                .build());
  }

  @Test
  void readsHowItIsKeptAlive() {
    ClusterRequest request =
        parse(
            """
            image: a
            restart: exit-code
            max-restarts: 7
            restart-scope: cluster
            restart-pause: 10s
            success: 80%
            clean: ps
            ttl: 2d
            time: 8h
            signal: USR1@90
            resubmit: 3
            checkpoints: /nfs/study
            idle: 5%@30m
            tasks:
              worker: {gpus: 1, max-restarts: 2}
              ps: {restart: always}
            """);

    assertThat(request)
        .isEqualTo(
            ClusterRequest.named("c")
                .all(run -> run.image("a").idle(new IdleLimit(5, Duration.ofMinutes(30))))
                .task("worker", 1, run -> run.gpus(1))
                .task("ps", 1, run -> {})
                .restart(RestartPolicy.EXIT_CODE)
                .restart("ps", RestartPolicy.ALWAYS)
                .maxRestarts("worker", 2)
                .timeLimit(Duration.ofHours(8))
                .policy(
                    new ClusterPolicy(
                        7,
                        true,
                        Duration.ofSeconds(10),
                        SuccessRule.share(80),
                        Cleaning.PS,
                        Optional.of(Duration.ofDays(2)),
                        Optional.of(new Warning("USR1", Duration.ofSeconds(90))),
                        3,
                        "/nfs/study"))
                .build());
    assertThat(request.groups().get(1).run().env()).containsEntry("CHECKPOINT_DIR", "/nfs/study");
    assertThat(request.groups().get(1).run().mounts())
        .containsExactly(new RunSpec.Mount("/nfs/study", "/nfs/study", false));
  }

  @Test
  void theSignalGoesToThoseWhoTrainUnlessATypeSaysSomethingElse() {
    ClusterRequest request =
        parse(
            """
            image: a
            time: 1h
            signal: USR1@60
            worker-grace: 5m
            tasks:
              chief:
              worker: {instances: 2, signal: INT@2m}
              sampler: {signal: none}
              evaluator:
              ps:
              cache: {background: true}
              reader: {background: true, signal: USR2@5}
              tensorboard:
            """);

    assertThat(
            request.tasks().stream()
                .flatMap(task -> request.warning(task).map(w -> task + " " + w.signal()).stream()))
        .containsExactly(
            "chief:0 USR1", "worker:0 INT", "worker:1 INT", "evaluator:0 USR1", "reader:0 USR2");
    assertThat(request.workerGrace()).isEqualTo(Duration.ofMinutes(5));
  }

  @Test
  void needsNoMoreThanATaskAndWhatItRuns() throws IOException {
    Path file =
        Files.writeString(folder.resolve("my mnist.v2.yaml"), "tasks: {worker: {image: a}}");
    ClusterRequest request = ClusterFile.read(file);

    assertThat(request)
        .isEqualTo(
            ClusterRequest.named("my-mnist.v2").task("worker", 1, run -> run.image("a")).build());
    assertThat(request.waitAtMost()).isEmpty();
    assertThat(request.layout()).isEqualTo(ClusterRequest.Layout.SPREAD);
  }

  @ParameterizedTest
  @CsvSource({
    "a.yaml, a",
    "b/mnist.yml, mnist",
    "x y+z.yaml, x-y-z",
    ".hidden, hidden",
    "---.yaml, cluster",
    "plain, plain",
    "/, cluster",
    "äöü.yaml, cluster",
  })
  void isNamedByItsFile(String file, String name) {
    assertThat(ClusterRequest.nameOf(Path.of(file))).isEqualTo(name);
  }

  @Test
  void noTimeToWaitIsAWish() {
    assertThat(parse("wait: 0s\ntasks: {worker: {image: a}}").waitAtMost()).contains(Duration.ZERO);
  }

  @Test
  void aScriptIsLookedForBesideTheFile() {
    Program program = only("tasks: {worker: {script: train.py -x}}").program();

    assertThat(program.words()).containsExactly(folder.resolve("train.py").toString(), "-x");
    assertThat(program.bundle()).isEmpty();
  }

  @Test
  void aScriptIsLookedForBelowTheFilesIfThoseAreSent() throws IOException {
    Files.createDirectories(folder.resolve("src/sub"));
    Files.writeString(folder.resolve("src/sub/go.py"), "");

    Program program = only("files: src\nscript: [sub/go.py, a b]\ntasks: {worker: }").program();

    assertThat(program.words()).containsExactly("sub/go.py", "a b");
    assertThat(program.bundle()).contains(folder.resolve("src"));
    assertThat(only("files: " + folder + "/src\nscript: sub/go.py\ntasks: {worker: }").program())
        .isEqualTo(
            new Program(
                List.of("sub/go.py"), false, Optional.of(folder.resolve("src")), List.of()));
  }

  @Test
  void tensorboardIsNotWhatTheOthersRun() {
    ClusterRequest request = parse("script: train.py\ntasks: {worker: , tensorboard: }");

    assertThat(request.groups().get(1).run().program().words())
        .isEqualTo(TaskGroup.tensorBoard("."));
  }

  @Test
  void aTaskMayDoWhatItsImageDoesByItself() {
    Program program =
        only("script: train.py\nservice: a\ntasks: {worker: {command: []}}").program();

    assertThat(program.words()).isEmpty();
  }

  @Test
  void textOfSeveralLinesIsOneCommand() {
    assertThat(
            only("tasks:\n  worker:\n    command: >\n      sh -c\n      'echo \"a\"'\n").program())
        .isEqualTo(
            new Program(List.of("sh", "-c", "echo \"a\""), true, Optional.empty(), List.of()));
  }

  @Test
  void anchorsAndMergesSaveWriting() {
    ClusterRequest request =
        parse(
            """
            env: &env {A: "1"}
            tasks:
              chief: &trains
                image: a
                gpus: 2
                env: {<<: *env, B: "2"}
              worker:
                <<: *trains
                instances: 3
                gpus: 1
              other: *trains
            """);

    assertThat(request.groups()).extracting(TaskGroup::instances).containsExactly(1, 3, 1);
    assertThat(request.groups()).extracting(TaskGroup::gpuCount).containsExactly(2, 1, 2);
    assertThat(request.groups())
        .extracting(group -> group.run().env())
        .containsOnly(Map.of("A", "1", "B", "2"));
  }

  @Test
  void aTaskThatNamesServersMayGoToNoOthers() {
    ClusterRequest request =
        parse(
            "image: a\nservers: [x]\ntasks: {worker: {servers: [y]}, ps: , chief: {servers: []}}");

    assertThat(request.groups())
        .extracting(group -> group.run().resources().servers().names())
        .containsExactly(Set.of("y"), Set.of("x"), Set.of());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        // the file, ~ for a new line, _ for two blanks | the message
        "`` | 1: the file is empty; it needs 'tasks'",
        "# nothing | 1: the file is empty; it needs 'tasks'",
        "[a] | 1: this file takes lines of the form 'key: value'",
        "just text | 1: this file takes lines of the form 'key: value'",
        "image: a | 1: missing 'tasks', for example 'worker: {gpus: 1}'",
        "image: a~tasks: | 2: the cluster c has no tasks",
        "image: a~tasks: {} | 2: the cluster c has no tasks",
        "tasks: [worker] | 1: 'tasks' takes lines of the form 'type: {...}'",
        "image: a~tasks: 5 | 2: 'tasks' takes lines of the form 'type: {...}'",
        "image: a~tasks:~_worker: 4 | 3: the value of task 'worker' takes lines of the form"
            + " 'key: value'",
        "tasks: {worker: {image: a} | 1: not YAML: ...",
        // keys
        "instnaces: 2 | 1: unknown key 'instnaces'; known keys: checkpoints, clean, command,"
            + " entrypoint, env, evaluator-grace, exclude, files, idle, image, interpreter, labels,"
            + " layout, max-restarts, mounts, name, pip, restart, restart-pause, restart-scope,"
            + " resubmit, script, servers, service, shm, signal, start-timeout, stop-grace,"
            + " success, tasks, time, ttl, wait, worker-grace",
        "tasks:~_worker:~__instance: 2 | 3: unknown key 'instance' of task 'worker' (did you mean"
            + " 'instances'?); known keys: background, command, cpus, entrypoint, env, exclude,"
            + " gpus, idle, image, instances, interpreter, labels, max-restarts, memory,"
            + " min-gpu-memory, model, mounts, pip, restart, script, servers, service, shm,"
            + " signal",
        "tasks:~_worker:~__replicas: 2 | 3: unknown key 'replicas' of task 'worker' (did you mean"
            + " 'instances'?); ...",
        "tasks:~_worker:~__min_gpu_memory: 2g | 3: unknown key 'min_gpu_memory' of task 'worker'"
            + " (did you mean 'min-gpu-memory'?); ...",
        "tasks:~_worker:~__Gpus: 2 | 3: unknown key 'Gpus' of task 'worker' (did you mean"
            + " 'gpus'?); ...",
        "tasks:~_worker:~__volumes: [] | 3: unknown key 'volumes' of task 'worker' (did you mean"
            + " 'mounts'?); ...",
        "tasks:~_worker:~__time: 2h | 3: unknown key 'time' of task 'worker' (set it for all tasks,"
            + " at the top level); ...",
        "tasks:~_worker:~__zebra: 2h | 3: unknown key 'zebra' of task 'worker'; known keys: ...",
        "gpus: 1 | 1: unknown key 'gpus' (set it per task, under 'tasks:'); ...",
        "Worker: {} | 1: unknown key 'Worker' (list tasks under 'tasks:'); ...",
        "task: {} | 1: unknown key 'task' (did you mean 'tasks'?); ...",
        "timeout: 2h | 1: unknown key 'timeout' (did you mean 'time'?); ...",
        "image: a~image: b | 2: 'image' is given twice",
        "tasks:~_worker: {image: a}~_worker: {image: b} | 3: 'worker' is given twice",
        "tasks:~_worker:~__image: a~__image: b | 4: 'image' of task 'worker' is given twice",
        "tasks:~_? [worker]~_: {} | 2: a type of tasks takes a single value",
        // types
        "tasks:~_Worker: {image: a} | 2: 'Worker': types of tasks are lower case here: 'worker'",
        "tasks:~_PS: {image: a} | 2: 'PS': types of tasks are lower case here: 'ps'",
        "tasks:~_workers: {image: a} | 2: 'workers': did you mean the type 'worker'?",
        "tasks:~_2nd: {image: a} | 2: '2nd' is not a type of tasks: lower-case letters, digits, -"
            + " and _, as in worker or ps",
        // what others check
        "name: a b~image: a~tasks: {worker: } | 1: 'a b' is not the name of a cluster: letters,"
            + " digits, and . _ - only",
        "name:~image: a~tasks: {worker: } | 1: 'name' has no value",
        "image: a~tasks:~_ps: {} | 2: the cluster c has only background tasks: one must end by"
            + " itself, for example 'worker'",
        "image: a~tasks:~_master: {}~_chief: {} | 2: 'master' is the old name of 'chief':"
            + " TensorFlow takes it neither beside a 'chief' nor with an 'evaluator'",
        "image: a~tasks:~_worker: {instances: 5000}~_ps: {instances: 5001} | 2: the cluster c has"
            + " more than 10000 tasks",
        "image: a~tasks:~_worker: {instances: 99999999999} | 2: the cluster c has more than 10000"
            + " tasks",
        "image: a~tasks:~_worker: {}~_chief:~__instances: 2 | 4: 'chief' asks for 2 instances, but"
            + " a cluster has one at most",
        "image: a~tasks:~_worker:~__model: A100 | 3: 'worker': a GPU model or memory requires a"
            + " number of GPUs",
        "tasks:~_worker: {} | 2: 'worker': nothing to run: set a script, a command, a service or an"
            + " image",
        "image: a~tasks:~_worker:~__gpus: -1 | 4: 'gpus' of task 'worker': number of GPUs must"
            + " not be negative: -1 (use 'all' for all)",
        // values
        "image: a~tasks:~_worker:~__instances: 0 | 4: 'instances' of task 'worker': '0' is not an"
            + " integer of at least 1",
        "image: a~tasks:~_worker:~__instances: many | 4: 'instances' of task 'worker': 'many' is"
            + " not an integer of at least 1",
        "image: a~tasks:~_worker:~__instances: [2] | 4: 'instances' of task 'worker' takes a single"
            + " value",
        "image: a~tasks:~_worker:~__gpus: some | 4: 'gpus' of task 'worker': 'some' is neither a"
            + " number nor 'all'",
        "image: a~tasks:~_worker:~__gpus: | 4: 'gpus' of task 'worker' has no value",
        "image: a~tasks:~_worker:~__memory: 8 | 4: 'memory' of task 'worker': '8' is not an amount"
            + " of memory such as 512m or 20g",
        "image: a~tasks:~_worker:~__memory: 0g | 4: 'memory' of task 'worker': '0g' must be more"
            + " than 0",
        "image: a~tasks:~_worker:~__gpus: 1~__min-gpu-memory: x | 5: 'min-gpu-memory' of task"
            + " 'worker': 'x' is not an amount of memory such as 512m or 20g",
        "image: a~tasks:~_worker:~__cpus: 0 | 4: 'cpus' of task 'worker': '0' is not a number of"
            + " CPUs such as 4 or 1.5",
        "image: a~shm: big~tasks: {worker: } | 2: 'shm': 'big' is not an amount of memory such as"
            + " 512m or 20g",
        "image: a~tasks:~_worker:~__background: yes | 4: 'background' of task 'worker': 'yes' is"
            + " neither true nor false",
        "image: a~time: 0s~tasks: {worker: } | 2: 'time': '0s' must be more than 0",
        "image: a~time: 2~tasks: {worker: } | 2: 'time': '2' is not a duration such as 30s, 10m or"
            + " 1h30m",
        "image: a~wait: ever~tasks: {worker: } | 2: 'wait': 'ever' is not a duration such as 30s,"
            + " 10m or 1h30m",
        "image: a~start-timeout: 0s~tasks: {worker: } | 2: 'start-timeout': '0s' must be more than"
            + " 0",
        "image: a~stop-grace: x~tasks: {worker: } | 2: 'stop-grace': 'x' is not a duration such as"
            + " 30s, 10m or 1h30m",
        "image: a~evaluator-grace: x~tasks: {worker: } | 2: 'evaluator-grace': 'x' is not a"
            + " duration such as 30s, 10m or 1h30m",
        "image: a~layout: flat~tasks: {worker: } | 2: 'layout': 'flat' is neither spread nor pack",
        "image: a~env: {A=B: 1}~tasks: {worker: } | 2: 'env': 'A=B' is not a valid variable name",
        "image: a~env: [A=B]~tasks: {worker: } | 2: 'env' takes lines of the form 'name: value'",
        "image: a~env: {A: 1, A: 2}~tasks: {worker: } | 2: 'A' is given twice in 'env'",
        "image: a~env: {A: [1]}~tasks: {worker: } | 2: 'env' takes a single value",
        "image: a~labels: x~tasks: {worker: } | 2: 'labels' takes lines of the form 'name: value'",
        "image: a~mounts: /data~tasks: {worker: } | 2: 'mounts' takes a list such as [a, b]",
        "image: a~mounts:~- /ok~- data:/x~tasks: {worker: } | 4: 'mounts': 'data:/x' is not"
            + " SRC[:DST][:ro] with absolute paths, for example /data:/data:ro",
        "image: a~mounts: [/a:/b:/c]~tasks: {worker: } | 2: 'mounts': '/a:/b:/c' is not"
            + " SRC[:DST][:ro] with absolute paths, for example /data:/data:ro",
        "image: a~servers: gpu1~tasks: {worker: } | 2: 'servers' takes a list such as [a, b]",
        "image: a~exclude: gpu1~tasks: {worker: } | 2: 'exclude' takes a list such as [a, b]",
        "image: a~servers: gpu1~tasks: {worker: {servers: [b]}} | 2: 'servers' takes a list such as"
            + " [a, b]",
        "image: a~pip: {a: b}~tasks: {worker: } | 2: 'pip' takes a list such as [a, b]",
        "image: a~pip: [./x.whl]~tasks: {worker: } | 2: 'pip': ./x.whl is a file, and no 'files'"
            + " are sent along",
        "image: a~files: wheels~pip:~- ./mine.whl~- x.whl~tasks: {worker: } | 5: 'pip': there is no"
            + " x.whl in {folder}/wheels",
        "image: a~files: wheels~pip: [../train.py]~tasks: {worker: } | 3: 'pip': there is no"
            + " ../train.py in {folder}/wheels",
        // what runs
        "service: a~image: b~tasks: {worker: } | 2: both 'service' and 'image' are given; remove"
            + " one",
        "image: b~service: a~tasks: {worker: } | 2: both 'service' and 'image' are given; remove"
            + " one",
        "tasks:~_worker:~__image: b~__service: a | 4: both 'service' of task 'worker' and 'image'"
            + " are given; remove one",
        "script: train.py~command: a~tasks: {worker: } | 2: both 'script' and 'command' are given;"
            + " remove one",
        "files: none~script: a.py~tasks: {worker: } | 1: 'files': there is no folder {folder}/none",
        "files: train.py~tasks: {worker: } | 1: 'files': there is no folder {folder}/train.py",
        "script: none.py~tasks:~_worker: {} | 1: there is no file {folder}/none.py; to run a"
            + " command of the image, use 'command'",
        "tasks:~_worker:~__script: none.py | 3: there is no file {folder}/none.py; to run a command"
            + " of the image, ...",
        "files: wheels~script: train.py~tasks:~_worker: {} | 2: there is no file train.py in the"
            + " bundle {folder}/wheels; to run a command of the image, ...",
        "files: wheels~script: ../train.py~tasks:~_worker: {} | 2: the script ../train.py must be"
            + " named by its path below {folder}/wheels",
        "script: wheels~tasks:~_worker: {} | 1: {folder}/wheels is a folder; to run a command of"
            + " the image, ...",
        "script: ''~tasks: {worker: } | 1: 'script' names no script",
        "script: []~tasks: {worker: } | 1: 'script' names no script",
        "script:~tasks: {worker: } | 1: 'script' has no value",
        "script: {a: b}~tasks: {worker: } | 1: 'script' takes a single value",
        "script: [[a]]~tasks: {worker: } | 1: a word in 'script' takes a single value",
        "command: sh -c 'a~tasks: {worker: } | 1: 'command': a ' is not closed in: sh -c 'a",
        "tasks:~_worker:~__command: a \"b | 3: 'command' of task 'worker': a \" is not closed in: a"
            + " \"b",
        "image: a~interpreter: a \\~tasks: {worker: } | 2: 'interpreter': there is nothing after"
            + " the last \\ in: a \\",
        "image: \"a\\0\"~tasks: {worker: } | 1: 'image' has a NUL in its value",
        "files: \"a\\0\"~tasks: {worker: } | 1: 'files' has a NUL in its value",
        "restart: OnFailure~tasks: {worker: } | 1: 'restart': 'OnFailure' is none of never,"
            + " on-failure, exit-code, always",
        "restartPolicy: a~tasks: {worker: } | 1: unknown key 'restartPolicy' (did you mean"
            + " 'restart'?); ...",
        "backoffLimit: 3~tasks: {worker: } | 1: unknown key 'backoffLimit' (did you mean"
            + " 'max-restarts'?); ...",
        "max-restarts: -1~tasks: {worker: } | 1: 'max-restarts': '-1' ...",
        "success: some~tasks: {worker: } | 1: 'success': 'some' is neither chief nor workers nor a"
            + " share such as 80%",
        "success: 101%~tasks: {worker: } | 1: 'success': 101 % of the workers cannot be done; from"
            + " 1 to 100 can",
        "clean: Running~tasks: {worker: } | 1: 'clean': 'Running' is none of all, running, ps,"
            + " none",
        "restart-scope: job~tasks: {worker: } | 1: 'restart-scope': 'job' is neither task nor"
            + " cluster",
        "checkpoints: here~tasks: {worker: } | 1: 'checkpoints': 'here' is not the absolute path of"
            + " a folder",
        "signal: USR1~tasks: {worker: } | 1: 'signal': 'USR1' is not a signal and a time, such as"
            + " USR1@60 or USR1@2m",
        "signal: FOO@3~tasks: {worker: } | 1: 'signal': 'FOO' is not a supported signal: use one of"
            + " HUP, INT, QUIT, USR1, USR2, TERM, CONT, ALRM, WINCH",
        "image: a~tasks:~_worker:~__signal: KILL@3 | 4: 'signal' of task 'worker': 'KILL' is not a"
            + " supported signal: ...",
        "image: a~tasks:~_worker:~__signal: USR1@3 | 2: the signal requires a time limit longer"
            + " than 3 s",
        "idle: 5~tasks: {worker: } | 1: 'idle': '5' is not a percentage and a time, such as 5%@30m",
        "image: a~resubmit: 2~tasks:~_worker: {} | 3: 'resubmit' requires 'time'",
        "image: a~signal: USR1@60~time: 30s~tasks:~_worker: {} | 4: the signal requires a time"
            + " limit longer than 60 s",
        "image: a~restart: always~tasks:~_worker: {} | 3: with 'restart: always' for all tasks that"
            + " train the cluster never ends; use 'on-failure'",
      })
  void tellsTheMistakeAndItsPlace(String text, String message) {
    String yaml = text.replace('~', '\n').replaceAll("(?m)(^|\\G)_", "  ");
    String expected = file() + ":" + message.replace("{folder}", folder.toString());

    assertThatThrownBy(() -> parse(yaml))
        .satisfies(
            thrown -> {
              if (expected.endsWith("...")) {
                assertThat(thrown).hasMessageStartingWith(expected.replaceFirst("\\.\\.\\.$", ""));
              } else {
                assertThat(thrown).hasMessage(expected);
              }
            })
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void saysThatThereIsNoFile() {
    Path missing = folder.resolve("missing.yaml");

    assertThatThrownBy(() -> ClusterFile.read(missing))
        .hasMessage("there is no cluster file " + missing);
    assertThatThrownBy(() -> ClusterFile.read(folder))
        .hasMessage("cannot read the cluster file " + folder + ": Is a directory");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"keras-tuner==1.4", "./wheels/mine.whl[all]", "/data/x.whl", "https://h/x.whl"})
  void takesWhatPipTakes(String word) {
    assertThat(only("files: .\ncommand: a\npip: ['" + word + "']\ntasks: {worker: }").pip())
        .containsExactly(word);
  }

  private RunSpec only(String text) {
    return parse(text).groups().get(0).run();
  }

  private ClusterRequest parse(String text) {
    return ClusterFile.parse(file(), text);
  }

  private Path file() {
    return folder.resolve("c.yaml");
  }
}
