package berth.server.run;

import berth.host.lock.GpuWish;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation.Owner;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.LongStream;

/**
 * What somebody wants to run.
 *
 * @param service a name of the administrator's for an image; or
 * @param image an image; neither where plain processes run
 * @param files small ones that are put beside the code, by their paths below {@link #WORK}
 * @param command the arguments of the source file if there is one
 * @param entrypoint in place of the image's
 * @param workingDir absolute
 * @param outputs what the caller wants to have afterwards
 * @param gpus to be reserved for this run; or
 * @param reservationId those of a reservation; neither for a run without GPUs
 * @param waitAtMost zero: not at all; empty: for ever
 * @param requestId the same for a retry; empty for none
 */
public record RequestedRun(
    Optional<String> service,
    Optional<String> image,
    Code code,
    Map<String, byte[]> files,
    List<String> command,
    Optional<List<String>> entrypoint,
    Map<String, String> env,
    String workingDir,
    List<String> outputs,
    Optional<GpuWish> gpus,
    Optional<String> reservationId,
    int ports,
    Optional<Duration> waitAtMost,
    Limits limits,
    Optional<User> user,
    Network network,
    List<Mount> mounts,
    boolean detached,
    Owner owner,
    String name,
    String requestId) {
  /** The folder with the code, as programs in containers see it. */
  public static final String WORK = "/work";

  /** The variable that tells programs where that folder is. */
  public static final String WORK_VARIABLE = "BERTH_WORK";

  private static final List<String> KERNELS = List.of("/proc", "/sys", "/dev");
  private static final int LONGEST_SOURCE = 8 << 20;
  private static final int LONGEST_NAME = 200;
  private static final int LONGEST_REQUEST_ID = 100;
  private static final int LONGEST_OWNER = 200;
  private static final int LONGEST_WORDS = 1 << 20;
  private static final int LONGEST_ENV = 1 << 20;
  private static final int LONGEST_OUTPUTS = 64 << 10;
  // Each also costs an object, however short it is.
  private static final int MOST_WORDS = 64 << 10;
  private static final int MOST_INTERPRETER_WORDS = 16;
  private static final int MOST_VARIABLES = 10_000;
  private static final int MOST_OUTPUTS = 1000;
  private static final int LONGEST_IMAGE = 1000;
  private static final int MOST_FILES = 64;
  // Each becomes a mount of the machine, which the kernel has a limited number of.
  private static final int MOST_MOUNTS = 64;
  private static final int MOST_FILE_BYTES = 4 << 20;
  private static final int LONGEST_FILE_NAME = 255;
  private static final int LONGEST_FILE_PATH = 1000;

  /** Where the code comes from. */
  public sealed interface Code {
    /** Nowhere: it is in the image. */
    record None() implements Code {}

    /**
     * One file.
     *
     * @param interpreter what runs it; empty: the service's, or what the file's first line says
     */
    record Source(String fileName, byte[] content, List<String> interpreter) implements Code {
      public Source {
        interpreter = List.copyOf(interpreter);
        checkCount("words of the interpreter", interpreter.size(), MOST_INTERPRETER_WORDS);
        checkTogether(
            "the interpreter has", LONGEST_IMAGE, interpreter.stream().mapToLong(String::length));
        if (fileName.isEmpty()
            || fileName.contains("/")
            || fileName.getBytes(StandardCharsets.UTF_8).length > LONGEST_FILE_NAME
            || fileName.chars().anyMatch(Character::isISOControl)
            || fileName.equals(".")
            || fileName.equals("..")) {
          throw invalid("'" + fileName + "' is not the name of a file without folders");
        }
        if (content.length > LONGEST_SOURCE) {
          throw invalid(
              fileName
                  + " has "
                  + content.length
                  + " bytes, 8 MiB are allowed; send it as a bundle");
        }
      }
    }

    /** Uploaded files. */
    record Bundle(String digest) implements Code {}
  }

  /** A user by number. */
  public record User(int uid, int gid) {
    public User {
      // Beyond that the kernel has -1, which means "as it is" to most calls: root, that is.
      if (uid < 0 || gid < 0) {
        throw invalid(
            "user "
                + Integer.toUnsignedString(uid)
                + ":"
                + Integer.toUnsignedString(gid)
                + " asked; user and group must be from 0 to "
                + Integer.MAX_VALUE);
      }
    }
  }

  /** What the program sees of the network. */
  public enum Network {
    OWN,
    HOST,
    NONE
  }

  /** A folder of this machine that the program sees. */
  public record Mount(String source, String target, boolean readOnly) {
    private static final List<String> TAKEN =
        List.of("/proc", "/sys", "/dev", "/berth", "/berth-launcher");

    public Mount {
      checkAbsolute("mount", source);
      checkAbsolute("mount target", target);
      if (target.contains(":") || source.contains(":")) {
        throw invalid("a mount's path must not contain ':': " + source + " at " + target);
      }
      // As the engine reads it: "//proc" and "/./proc" are /proc.
      Path place = Path.of(target).normalize();
      target = place.toString();
      if (target.equals(WORK)) {
        throw invalid("nothing can be mounted at " + WORK + ", where the code is");
      }
      if (target.equals("/") || TAKEN.stream().anyMatch(place::startsWith)) {
        throw invalid("nothing can be mounted at " + target);
      }
    }
  }

  public RequestedRun {
    files = Map.copyOf(files);
    command = List.copyOf(command);
    entrypoint = entrypoint.map(List::copyOf);
    env = Map.copyOf(env);
    outputs = List.copyOf(outputs);
    mounts = List.copyOf(mounts);
    checkCount("variables", env.size(), MOST_VARIABLES);
    checkCount("outputs", outputs.size(), MOST_OUTPUTS);
    checkMounts(mounts.size());
    for (String key : env.keySet()) {
      checkVariable(key, env.get(key));
    }
    checkTogether(
        "the variables have",
        LONGEST_ENV,
        env.entrySet().stream().mapToLong(one -> one.getKey().length() + one.getValue().length()));
    checkTogether("the outputs have", LONGEST_OUTPUTS, outputs.stream().mapToLong(String::length));
    service.ifPresent(given -> checkLength("the service", given, LONGEST_IMAGE));
    image.ifPresent(given -> checkLength("the image", given, LONGEST_IMAGE));
    checkFiles(files, code);
    checkWords(command);
    entrypoint.ifPresent(RequestedRun::checkWords);
    checkAbsolute("working folder", workingDir);
    // There an engine could be made to begin in a folder of the host that it has open.
    if (KERNELS.stream().anyMatch(Path.of(workingDir).normalize()::startsWith)) {
      throw invalid("the working folder must not be in /proc, /sys or /dev: " + workingDir);
    }
    for (String output : outputs) {
      if (output.isEmpty() || output.startsWith("/") || List.of(output.split("/")).contains("..")) {
        throw invalid("output '" + output + "' is not a path below " + WORK);
      }
    }
    if (ports < 0) {
      throw invalid(ports + " ports asked; ask for 0 or more");
    }
    if (ports > 0 && reservationId.isPresent()) {
      throw invalid("a run in a reservation uses its ports and cannot ask for others");
    }
    if (limits.idle().isPresent() && gpus.isEmpty() && reservationId.isEmpty()) {
      throw invalid("an idle limit requires GPUs");
    }
    if (waitAtMost.map(Duration::isNegative).orElse(false)) {
      throw invalid("the wait must not be negative");
    }
    checkLength("the owner", owner.toString(), LONGEST_OWNER);
    checkLength("the name", name, LONGEST_NAME);
    checkLength("the request id", requestId, LONGEST_REQUEST_ID);
  }

  boolean needsReservation() {
    return gpus.isPresent() || ports > 0;
  }

  /** Whether it has GPUs or ports, its own or those of a reservation. */
  boolean holdsSomething() {
    return needsReservation() || reservationId.isPresent();
  }

  private static void checkFiles(Map<String, byte[]> files, Code code) {
    long bytes = files.values().stream().mapToLong(content -> content.length).sum();
    if (files.size() > MOST_FILES || bytes > MOST_FILE_BYTES) {
      throw invalid(
          files.size()
              + " files of "
              + bytes
              + " bytes beside the code, 64 of 4 MiB are allowed; send a bundle");
    }
    Set<String> all = new HashSet<>(files.keySet());
    if (code instanceof Code.Source source && !all.add(source.fileName)) {
      throw invalid("'" + source.fileName + "' is the source file, and cannot be put beside it");
    }
    for (String name : files.keySet()) {
      checkFileName(name);
      for (int end = name.indexOf('/'); end >= 0; end = name.indexOf('/', end + 1)) {
        if (all.contains(name.substring(0, end))) {
          throw invalid(
              "file '" + name + "' lies below '" + name.substring(0, end) + "', which is a file");
        }
      }
    }
  }

  static void checkMounts(int count) {
    checkCount("mounts", count, MOST_MOUNTS);
  }

  private static void checkFileName(String name) {
    String[] parts = name.split("/", -1);
    boolean good =
        parts.length <= BundleTar.MAX_DEPTH
            && name.length() <= LONGEST_FILE_PATH
            && name.chars().noneMatch(Character::isISOControl);
    for (String part : parts) {
      int length = part.getBytes(StandardCharsets.UTF_8).length;
      good &= length > 0 && length <= LONGEST_FILE_NAME && !part.equals(".") && !part.equals("..");
    }
    try {
      Path.of(name);
    } catch (InvalidPathException e) {
      good = false;
    }
    if (!good) {
      throw invalid("file '" + name + "' is not a path below " + WORK);
    }
  }

  private static void checkVariable(String key, String value) {
    if (!key.matches("[A-Za-z_][A-Za-z0-9_.-]*")) {
      throw invalid("'" + key + "' is not a valid variable name");
    }
    if (key.startsWith("NVIDIA_")
        || key.startsWith("BERTH_")
        || List.of("NV_GPU", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER").contains(key)) {
      throw invalid(
          "the variable " + key + " is set by Berth from the reserved GPUs; leave it out");
    }
    if (value.indexOf('\0') >= 0) {
      throw invalid("the variable " + key + " contains a NUL character");
    }
  }

  private static void checkWords(List<String> words) {
    checkCount("words of the command", words.size(), MOST_WORDS);
    long length = 0;
    for (String word : words) {
      length += word.length();
      if (word.indexOf('\0') >= 0) {
        throw invalid("the command contains a NUL character");
      }
    }
    if (length > LONGEST_WORDS) {
      throw invalid("the command has " + length + " characters, " + LONGEST_WORDS + " are allowed");
    }
  }

  private static void checkAbsolute(String what, String path) {
    if (!path.startsWith("/")
        || List.of(path.split("/")).contains("..")
        || path.chars().anyMatch(Character::isISOControl)) {
      throw invalid(what + " '" + path + "' is not an absolute path without '..'");
    }
  }

  private static void checkCount(String what, int count, int most) {
    if (count > most) {
      throw invalid(count + " " + what + " asked, " + most + " are allowed");
    }
  }

  private static void checkTogether(String what, long longest, LongStream lengths) {
    long length = lengths.sum();
    if (length > longest) {
      throw invalid(what + " " + length + " characters together, " + longest + " are allowed");
    }
  }

  private static void checkLength(String what, String text, int longest) {
    if (text.length() > longest) {
      throw invalid(what + " has " + text.length() + " characters, " + longest + " are allowed");
    }
  }

  static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
