package berth.cli;

import berth.client.call.Download;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import berth.v1.DownloadFilesRequest;
import berth.v1.RunState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth cp}. */
@Command(
    name = "cp",
    sortOptions = false,
    description = {
      "Copy files from a running or ended run.",
      "",
      "Paths are relative to the run's working folder. As with docker cp, files go into DEST if it"
          + " is a folder, else DEST is the new name. RUN:. copies everything. Patterns such as"
          + " 'model/*.h5' need a folder as DEST. Missing folders before DEST are not created, and"
          + " files are overwritten only with --force.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cp run-6b1f:model/weights.h5 .",
      "  berth cp run-6b1f:logs results/logs-of-monday",
    })
final class CpCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;
  @Mixin private ServerOption server;

  @Mixin private DownloadLimit limit;

  @Parameters(
      index = "0",
      paramLabel = "RUN:PATH",
      description = "Run ID, unique prefix or name, and a path or pattern.")
  private String source;

  @Parameters(index = "1", paramLabel = "DEST", description = "Local file or folder.")
  private Path destination;

  @Override
  public Integer call() throws IOException {
    int colon = source.indexOf(':');
    String path = colon < 0 ? "" : belowWork(source.substring(colon + 1));
    if (colon <= 0 || source.length() == colon + 1) {
      throw new ParameterException(
          spec.commandLine(), "'" + source + "' is not RUN:PATH, such as run-6b1f:model.h5");
    }
    boolean intoFolder = Files.isDirectory(destination);
    if (!intoFolder && LocalOutputs.WILD.matcher(path).find()) {
      throw new BerthException(
          Reason.INVALID,
          "the pattern " + path + " needs a folder as DEST: " + destination + " is none");
    }
    Path absolute = destination.toAbsolutePath().normalize();
    if (!intoFolder && !Files.isDirectory(absolute.getParent())) {
      throw new BerthException(
          Reason.INVALID, "no folder " + absolute.getParent() + "; create it first");
    }
    boolean renamed = !intoFolder && !path.isEmpty();
    if (!intoFolder && Files.exists(destination) && (!renamed || !limit.force())) {
      throw new BerthException(
          Reason.ALREADY_EXISTS,
          renamed
              ? destination + " exists; use --force to overwrite"
              : destination + " is not a folder");
    }
    Path folder = renamed ? absolute.getParent() : absolute;
    Download.checkWritable(folder, "choose another DEST");
    try (Servers servers = server.servers();
        FoundRun found = FoundRun.find(servers, source.substring(0, colon))) {
      DownloadFilesRequest request =
          DownloadFilesRequest.newBuilder()
              .setRunId(found.id())
              .addPaths(path.isEmpty() ? "." : path)
              .build();
      if (found.run().getState() == RunState.RUN_STATE_RUNNING) {
        Terminal.note(found.id() + " is running: files that it is writing may be incomplete");
      }
      int files =
          limit.download(
              folder,
              found.client(),
              request,
              renamed ? replacing(path, absolute.getFileName().toString()) : below(parent(path)),
              Terminal::note);
      Terminal.note(files + (files == 1 ? " file" : " files"));
    }
    return ExitCode.OK;
  }

  /** The path below the working folder, which the program itself sees as /work; empty: all. */
  private static String belowWork(String path) {
    Path work = Path.of("/work");
    Path plain = Path.of(path).normalize();
    return (plain.startsWith(work) ? work.relativize(plain) : plain).toString();
  }

  /** The folders before the last part, or before the first part with a wildcard. */
  private static String parent(String path) {
    Matcher wild = LocalOutputs.WILD.matcher(path);
    int end = wild.find() ? wild.start() : path.length();
    return path.substring(0, path.lastIndexOf('/', end - 1) + 1);
  }

  /** The names without the folder in which they were. */
  private static UnaryOperator<String> below(String parent) {
    return name -> name.startsWith(parent) ? name.substring(parent.length()) : "";
  }

  /** The names with {@code to} in place of {@code from}. */
  private static UnaryOperator<String> replacing(String from, String to) {
    return name ->
        name.equals(from) || name.startsWith(from + "/") ? to + name.substring(from.length()) : "";
  }
}
