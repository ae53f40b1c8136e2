package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The folders of this machine that programs may see, as the administrator allows them. */
public final class MountRules {
  // Longer than any disk takes that is there.
  private static final Duration LOOK_AT_MOST = Duration.ofSeconds(10);
  private static final int LOOKS_AT_ONCE = 16;

  /**
   * @param folder as the administrator names it
   * @param real what that is, as far as it exists, when this server starts. Not looked at again: a
   *     program that can replace it by a link would move the rule.
   */
  private record Rule(Path folder, Path real, boolean readOnly) {
    @Override
    public String toString() {
      return folder + (readOnly ? " (read only)" : "");
    }
  }

  private static final Pattern UNPRINTABLE = Pattern.compile("[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]");

  private final List<Rule> rules;
  private final ClosedFolders closed;

  // A file system that hangs must hang no more than these.
  private final ExecutorService looks =
      new ThreadPoolExecutor(
          0, LOOKS_AT_ONCE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), MountRules::thread);

  private MountRules(List<Rule> rules, ClosedFolders closed) {
    this.rules = rules;
    this.closed = closed;
  }

  /**
   * @param entries such as {@code /data:ro}, {@code /scratch:rw} or {@code /home}, which is {@code
   *     rw} too
   * @param closed what no entry may expose
   * @throws BerthException INVALID for an entry that is none of these, says what another denies, or
   *     exposes what is closed
   */
  public static MountRules parse(List<String> entries, ClosedFolders closed) {
    List<Rule> rules = new ArrayList<>();
    for (String entry : entries) {
      Rule rule = parse(entry);
      if (rules.stream().anyMatch(other -> other.folder.equals(rule.folder))) {
        throw invalid("the folder " + rule.folder + " for mounts is given twice");
      }
      closed
          .exposedBy(rule.folder, rule.readOnly)
          .ifPresent(
              exposed -> {
                throw invalid(
                    "--allow-mount " + entry + " is refused: it would give runs " + exposed);
              });
      rules.add(rule);
    }
    return new MountRules(List.copyOf(rules), closed);
  }

  /** Allows nothing. */
  public static MountRules none() {
    return new MountRules(List.of(), new ClosedFolders());
  }

  private static Rule parse(String entry) {
    boolean readOnly = entry.endsWith(":ro");
    String folder =
        readOnly || entry.endsWith(":rw") ? entry.substring(0, entry.length() - 3) : entry;
    if (!folder.startsWith("/") || folder.contains(":")) {
      throw invalid(
          "'" + entry + "' is not an absolute folder for mounts such as /data or /data:ro");
    }
    try {
      Path path = Path.of(folder).normalize();
      return new Rule(path, ClosedFolders.real(path), readOnly);
    } catch (InvalidPathException e) {
      throw invalid("'" + entry + "' is not a path: " + e.getReason());
    }
  }

  private static Thread thread(Runnable look) {
    return DaemonThreads.unstarted(look, "mount-rules");
  }

  /**
   * Returns the real path of a folder that a program asks to see, with symbolic links resolved: it
   * is this path that must be mounted. The most specific rule decides.
   *
   * @throws BerthException DENIED if the administrator does not allow it; INVALID if it is not the
   *     absolute path of a folder; UNAVAILABLE if nobody can tell, because the file system hangs
   */
  Path check(Path source, boolean readOnly) {
    if (!source.isAbsolute()) {
      throw invalid("mount of '" + source + "' asked, which is not an absolute path");
    }
    Future<Path> look = null;
    try {
      look = looks.submit(() -> look(source, readOnly));
      return look.get(LOOK_AT_MOST.toMillis(), TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof BerthException refused
          ? refused
          : new IllegalStateException(e.getCause());
    } catch (TimeoutException e) {
      throw hangs(source, "its file system does not answer");
    } catch (RejectedExecutionException e) {
      throw hangs(source, "too many other folders are being checked");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw hangs(source, "this server is stopping");
    } finally {
      if (look != null) {
        look.cancel(true);
      }
    }
  }

  private static BerthException hangs(Path source, String why) {
    return new BerthException(
        Reason.UNAVAILABLE, "mount of " + source + " asked, it cannot be checked: " + why);
  }

  private Path look(Path source, boolean readOnly) {
    Path real = realPath(source);
    Rule rule =
        rules.stream()
            .filter(each -> real.startsWith(each.real))
            // Where two rules lead to the same folder by way of a link, the stricter one.
            .max(
                Comparator.comparingInt((Rule each) -> each.real.getNameCount())
                    .thenComparing(Rule::readOnly))
            .orElseThrow(() -> denied(source, ""));
    if (!Files.isDirectory(real)) {
      throw noFolder(source);
    }
    if (real.toString().contains(":") || UNPRINTABLE.matcher(real.toString()).find()) {
      throw invalid(
          "mount of " + source + " asked, which leads to a path with ':' or control characters");
    }
    // What is closed may have moved here since the start.
    closed
        .exposedBy(real, readOnly)
        .ifPresent(
            exposed -> {
              throw denied(source, ", which would expose " + exposed + ",");
            });
    if (!readOnly) {
      if (rule.readOnly) {
        throw denied(source, " to write to");
      }
      // Else a folder that may only be read could be written to by way of the one around it.
      rules.stream()
          .filter(each -> each.readOnly && each.real.startsWith(real))
          .findFirst()
          .ifPresent(
              inside -> {
                throw denied(source, " to write to, with " + inside.folder + " inside");
              });
    }
    return real;
  }

  private Path realPath(Path source) {
    try {
      return source.toRealPath();
    } catch (IOException e) {
      // Whether something exists where nothing is allowed is nobody's business.
      Path path = source.normalize();
      throw rules.stream().anyMatch(rule -> path.startsWith(rule.folder))
          ? noFolder(source)
          : denied(source, "");
    }
  }

  private BerthException denied(Path source, String how) {
    String allowed =
        rules.isEmpty()
            ? "none"
            : rules.stream().map(Rule::toString).collect(Collectors.joining(", "));
    return new BerthException(
        Reason.DENIED, "mount of " + source + how + " asked, the administrator allows " + allowed);
  }

  private static BerthException noFolder(Path source) {
    return invalid("mount of " + source + " asked, there is no such folder on this server");
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
