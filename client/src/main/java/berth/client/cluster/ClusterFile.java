package berth.client.cluster;

import berth.client.spec.IdleLimit;
import berth.client.spec.RunSpec;
import berth.client.spec.Warning;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.InvalidValueException;
import berth.text.Values;
import berth.text.YamlSection;
import berth.text.YamlValue;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Reads a cluster from a YAML file:
 *
 * <pre>{@code
 * service: tensorflow            # or image:; each task may say its own
 * files: .                       # is sent to every task; relative to this file, as all paths
 * script: train.py --epochs 3
 * tasks:
 *   chief: {gpus: 1}
 *   worker: {instances: 4, gpus: 1, model: A100}
 *   ps: {instances: 2, memory: 8g}
 * }</pre>
 *
 * <p>What is said above {@code tasks} holds for all of them; what a task says itself wins, and adds
 * to {@code env}, {@code labels}, {@code mounts} and {@code exclude}. Every mistake is told with
 * its place.
 */
public final class ClusterFile {
  /** What both all tasks and each of them can say. */
  private static final List<String> SHARED_KEYS =
      List.of(
          "command",
          "entrypoint",
          "env",
          "exclude",
          "idle",
          "image",
          "interpreter",
          "labels",
          "mounts",
          "pip",
          "restart",
          "script",
          "servers",
          "service",
          "shm",
          "signal");

  private static final List<String> ALL_KEYS =
      sorted(
          "checkpoints",
          "clean",
          "evaluator-grace",
          "files",
          "layout",
          "max-restarts",
          "name",
          "restart-pause",
          "restart-scope",
          "resubmit",
          "start-timeout",
          "stop-grace",
          "success",
          "tasks",
          "time",
          "ttl",
          "wait",
          "worker-grace");

  private static final List<String> TASK_KEYS =
      sorted(
          "background",
          "cpus",
          "gpus",
          "instances",
          "max-restarts",
          "memory",
          "min-gpu-memory",
          "model");

  /** What the same is called elsewhere. */
  private static final Map<String, String> SYNONYMS =
      Map.ofEntries(
          Map.entry("replicas", "instances"),
          Map.entry("count", "instances"),
          Map.entry("environment", "env"),
          Map.entry("variables", "env"),
          Map.entry("volumes", "mounts"),
          Map.entry("binds", "mounts"),
          Map.entry("timeout", "time"),
          Map.entry("time-limit", "time"),
          Map.entry("bundle", "files"),
          Map.entry("folder", "files"),
          Map.entry("packages", "pip"),
          Map.entry("requirements", "pip"),
          Map.entry("cmd", "command"),
          Map.entry("mem", "memory"),
          Map.entry("ram", "memory"),
          Map.entry("gpu-model", "model"),
          Map.entry("gpu-memory", "min-gpu-memory"),
          Map.entry("min-memory", "min-gpu-memory"),
          Map.entry("shm-size", "shm"),
          Map.entry("hosts", "servers"),
          Map.entry("nodeSelector", "labels"),
          Map.entry("restartPolicy", "restart"),
          Map.entry("retries", "max-restarts"),
          Map.entry("nb-retries", "max-restarts"),
          Map.entry("backoffLimit", "max-restarts"),
          Map.entry("successPolicy", "success"),
          Map.entry("cleanPodPolicy", "clean"),
          Map.entry("ttlSecondsAfterFinished", "ttl"),
          Map.entry("activeDeadlineSeconds", "time"),
          Map.entry("walltime", "time"),
          Map.entry("checkpoint-dir", "checkpoints"));

  private final Path file;
  private final YamlValue root;
  private final YamlSection all;
  private final Optional<Path> files;

  private ClusterFile(Path file, YamlValue root) {
    this.file = file;
    this.root = root;
    this.all = YamlSection.of("", root, ALL_KEYS, ClusterFile::hintForAll);
    this.files = all.value("files", this::besideThis);
    files.ifPresent(
        folder -> {
          if (!Files.isDirectory(folder)) {
            throw all.get("files").orElseThrow().invalid("'files': there is no folder " + folder);
          }
        });
  }

  /**
   * Reads a file. Its scripts and folders are looked for, but nothing is read of them yet.
   *
   * @throws BerthException if there is no such file, or something is wrong in it
   */
  public static ClusterRequest read(Path file) {
    return request(file, YamlValue.read(file, "cluster file"));
  }

  /**
   * The same for what is at hand already.
   *
   * @param file what it is called in messages, and where its relative paths begin
   */
  public static ClusterRequest parse(Path file, String text) {
    return request(file, YamlValue.parse(file.toString(), text));
  }

  private static ClusterRequest request(Path file, Optional<YamlValue> root) {
    return new ClusterFile(
            file,
            root.orElseThrow(
                () ->
                    new BerthException(
                        Reason.INVALID, file + ":1: the file is empty; it needs 'tasks'")))
        .request();
  }

  private ClusterRequest request() {
    YamlValue place =
        all.place("tasks")
            .orElseThrow(() -> root.invalid("missing 'tasks', for example 'worker: {gpus: 1}'"));
    ClusterRequest.Builder request = ClusterRequest.named(name());
    all.value("layout", ClusterFile::layout).ifPresent(request::layout);
    all.value("wait", ClusterFile::duration).ifPresent(request::waitAtMost);
    all.value("time", Values::positiveDuration).ifPresent(request::timeLimit);
    all.value("start-timeout", Values::positiveDuration).ifPresent(request::startTimeout);
    all.value("stop-grace", ClusterFile::duration).ifPresent(request::stopGrace);
    all.value("evaluator-grace", ClusterFile::duration).ifPresent(request::evaluatorGrace);
    all.value("worker-grace", ClusterFile::duration).ifPresent(request::workerGrace);
    all.value("restart", text -> said(() -> RestartPolicy.parse(text))).ifPresent(request::restart);
    request.policy(policy());
    // Tried on nothing, so that what is wrong is found before it is mixed with what tasks say.
    sayForAll(RunSpec.builder());
    request.all(this::sayForAll);
    YamlValue tasks = all.get("tasks").orElseThrow();
    if (!tasks.isNothing()) {
      tasks.pairs("'tasks'", "type: {...}").forEach(pair -> addTask(request, pair));
    }
    return at(place, request::build);
  }

  private ClusterPolicy policy() {
    ClusterPolicy usual = ClusterPolicy.USUAL;
    return new ClusterPolicy(
        all.value("max-restarts", ClusterFile::restarts).orElse(usual.maxRestarts()),
        all.value("restart-scope", ClusterFile::wholeRestarts).orElse(usual.wholeRestarts()),
        all.value("restart-pause", ClusterFile::duration).orElse(usual.restartPause()),
        all.value("success", text -> said(() -> SuccessRule.parse(text))).orElse(usual.success()),
        all.value("clean", text -> said(() -> Cleaning.parse(text))).orElse(usual.cleaning()),
        all.value("ttl", ClusterFile::duration),
        all.value("signal", text -> said(() -> Warning.parse(text))),
        all.value("resubmit", ClusterFile::restarts).orElse(usual.resubmissions()),
        all.value("checkpoints", ClusterFile::folder).orElse(usual.checkpoints()));
  }

  private String name() {
    Optional<String> name = all.value("name", Function.identity());
    name.ifPresent(
        given ->
            at(
                all.get("name").orElseThrow(),
                () -> {
                  ClusterRequest.checkName(given);
                  return given;
                }));
    return name.orElseGet(() -> ClusterRequest.nameOf(file));
  }

  private void addTask(ClusterRequest.Builder request, YamlValue.Pair pair) {
    YamlValue place = pair.key();
    String type = type(place);
    String owner = " of task '" + type + "'";
    YamlSection task =
        pair.value().isNothing()
            ? YamlSection.empty(owner)
            : YamlSection.of(owner, pair.value(), TASK_KEYS, ClusterFile::hintForTask);
    sayForTask(task, RunSpec.builder());
    int instances = task.value("instances", ClusterFile::count).orElse(1);
    task.value("background", ClusterFile::yesOrNo)
        .ifPresent(stopped -> request.background(type, stopped));
    task.value("restart", text -> said(() -> RestartPolicy.parse(text)))
        .ifPresent(policy -> request.restart(type, policy));
    task.value("max-restarts", ClusterFile::restarts)
        .ifPresent(times -> request.maxRestarts(type, times));
    task.value("signal", text -> said(() -> TaskSignal.parse(text)))
        .ifPresent(signal -> request.signal(type, signal));
    at(place, () -> request.task(type, instances, run -> sayForTask(task, run)));
    TaskGroup group = at(place, () -> request.group(type));
    YamlValue script = task.get("script").or(() -> all.get("script")).orElse(place);
    at(
        script,
        () -> {
          group.run().program().check("; to run a command of the image, use 'command'");
          return group;
        });
  }

  private static String type(YamlValue place) {
    String type = place.text("a type of tasks");
    String lower = type.toLowerCase(Locale.ROOT);
    if (!lower.equals(type)) {
      throw place.invalid("'" + type + "': types of tasks are lower case here: '" + lower + "'");
    }
    String singular = type.replaceFirst("s$", "");
    if (!TaskGroup.USUAL_TYPES.contains(type) && TaskGroup.USUAL_TYPES.contains(singular)) {
      throw place.invalid("'" + type + "': did you mean the type '" + singular + "'?");
    }
    at(place, () -> new TaskName(type, 0));
    return type;
  }

  private void sayForAll(RunSpec.Builder run) {
    files.ifPresent(run::files);
    say(all, run);
  }

  private void sayForTask(YamlSection task, RunSpec.Builder run) {
    say(task, run);
    // Another's choice of servers is replaced, or nobody could choose anything else.
    task.list("servers")
        .or(() -> all.list("servers"))
        .ifPresent(names -> run.servers(names.toArray(String[]::new)));
    task.value("gpus", Values::gpuCount).ifPresent(run::gpusOrAll);
    task.value("model", Function.identity()).ifPresent(run::gpuModel);
    task.value("min-gpu-memory", ClusterFile::size).ifPresent(run::minGpuMemory);
    task.value("memory", ClusterFile::size).ifPresent(run::memory);
    task.value("cpus", Values::cpus).ifPresent(run::cpus);
  }

  /** What all tasks or one can say. */
  private void say(YamlSection section, RunSpec.Builder run) {
    oneOf(section, "service", "image");
    oneOf(section, "script", "command");
    section.list("servers");
    section.value("service", Function.identity()).ifPresent(run::service);
    section.value("image", Function.identity()).ifPresent(run::image);
    words(section, "command").ifPresent(words -> run.program(words, true));
    words(section, "script").ifPresent(words -> run.program(script(section, words), false));
    words(section, "interpreter").ifPresent(run::interpreter);
    words(section, "entrypoint").ifPresent(run::entrypoint);
    section.list("pip", (place, word) -> pip(section, place, word)).ifPresent(run::pip);
    section.map("env", Values::variable, Function.identity()).forEach(run::env);
    section.map("labels", Function.identity(), Function.identity()).forEach(run::label);
    section
        .list(
            "mounts", (place, word) -> at(place, section.what("mounts") + ": ", () -> mount(word)))
        .ifPresent(
            mounts ->
                mounts.forEach(
                    mount -> run.mount(mount.source(), mount.target(), mount.readOnly())));
    section.list("exclude").ifPresent(names -> run.exclude(names.toArray(String[]::new)));
    section.value("shm", ClusterFile::size).ifPresent(run::sharedMemory);
    section.value("idle", text -> said(() -> IdleLimit.parse(text))).ifPresent(run::idle);
  }

  private static RunSpec.Mount mount(String text) {
    return RunSpec.Mount.parse(text);
  }

  private static void oneOf(YamlSection section, String one, String other) {
    Optional<YamlValue> first = section.place(one);
    Optional<YamlValue> second = section.place(other);
    if (first.isPresent() && second.isPresent()) {
      throw (first.get().line() > second.get().line() ? first : second)
          .get()
          .invalid("both " + section.what(one) + " and '" + other + "' are given; remove one");
    }
  }

  /** Words that are a list, or one text. */
  private static Optional<List<String>> words(YamlSection section, String key) {
    boolean isList = section.get(key).flatMap(YamlValue::items).isPresent();
    return isList ? section.list(key) : section.value(key, ShellWords::split);
  }

  private List<String> script(YamlSection section, List<String> words) {
    if (words.isEmpty()) {
      throw section
          .get("script")
          .orElseThrow()
          .invalid(section.what("script") + " names no script");
    }
    if (files.isPresent()) {
      return words;
    }
    List<String> found = new ArrayList<>(words);
    found.set(0, besideThis(words.get(0)).toString());
    return found;
  }

  /** What pip would take for a file must be among those that are sent along. */
  private String pip(YamlSection section, YamlValue place, String word) {
    boolean relative = word.startsWith("./") || word.startsWith("../");
    boolean wheel = word.endsWith(".whl") && !word.startsWith("/") && !word.contains("://");
    if (relative || wheel) {
      String path = word.replaceFirst("\\[[^]/]*]$", "");
      if (files.isEmpty()) {
        throw place.invalid(
            section.what("pip") + ": " + word + " is a file, and no 'files' are sent along");
      }
      if (Path.of(path).normalize().startsWith("..") || !Files.exists(files.get().resolve(path))) {
        throw place.invalid(section.what("pip") + ": there is no " + path + " in " + files.get());
      }
    }
    return word;
  }

  private Path besideThis(String path) {
    return file.resolveSibling(path);
  }

  private static String size(String text) {
    Values.positiveSize(text);
    return text;
  }

  private static Duration duration(String text) {
    return Values.duration(text);
  }

  private static int count(String text) {
    return (int) Math.min(Integer.MAX_VALUE, Values.number(text, 1));
  }

  private static boolean yesOrNo(String text) {
    return switch (text) {
      case "true" -> true;
      case "false" -> false;
      default -> throw new InvalidValueException("'" + text + "' is neither true nor false");
    };
  }

  private static int restarts(String text) {
    return (int) Math.min(Integer.MAX_VALUE, Values.number(text, 0));
  }

  private static boolean wholeRestarts(String text) {
    return switch (text) {
      case "task" -> false;
      case "cluster" -> true;
      default -> throw new InvalidValueException("'" + text + "' is neither task nor cluster");
    };
  }

  private static String folder(String text) {
    if (!text.startsWith("/")) {
      throw new InvalidValueException("'" + text + "' is not the absolute path of a folder");
    }
    return text;
  }

  private static <T> T said(Step<T> step) {
    try {
      return step.take();
    } catch (BerthException e) {
      throw new InvalidValueException(e.getMessage());
    }
  }

  private static ClusterRequest.Layout layout(String text) {
    return switch (text) {
      case "spread" -> ClusterRequest.Layout.SPREAD;
      case "pack" -> ClusterRequest.Layout.PACK;
      default -> throw new InvalidValueException("'" + text + "' is neither spread nor pack");
    };
  }

  private interface Step<T> {
    T take();
  }

  private static <T> T at(YamlValue place, Step<T> step) {
    return at(place, "", step);
  }

  /** Tells what others find wrong with its place. */
  private static <T> T at(YamlValue place, String what, Step<T> step) {
    try {
      return step.take();
    } catch (BerthException e) {
      throw place.invalid(what + e.getMessage());
    }
  }

  private static String hintForAll(String key) {
    if (TASK_KEYS.contains(key)) {
      return " (set it per task, under 'tasks:')";
    }
    return TaskGroup.USUAL_TYPES.contains(key.toLowerCase(Locale.ROOT))
        ? " (list tasks under 'tasks:')"
        : hint(key, ALL_KEYS);
  }

  private static String hintForTask(String key) {
    return ALL_KEYS.contains(key)
        ? " (set it for all tasks, at the top level)"
        : hint(key, TASK_KEYS);
  }

  private static String hint(String key, List<String> known) {
    String usual = key.replace('_', '-');
    return Optional.ofNullable(SYNONYMS.get(usual))
        .filter(known::contains)
        .or(() -> Spelling.nearest(usual.toLowerCase(Locale.ROOT), known))
        .map(meant -> " (did you mean '" + meant + "'?)")
        .orElse("");
  }

  private static List<String> sorted(String... more) {
    return Stream.concat(SHARED_KEYS.stream(), Stream.of(more)).sorted().toList();
  }
}
