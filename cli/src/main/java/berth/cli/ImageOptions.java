package berth.cli;

import berth.client.spec.Program;
import berth.client.spec.RunSpec;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Entrypoint;
import berth.v1.Mount;
import berth.v1.RunCodeRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options that say in what a program runs, with which variables and folders. */
final class ImageOptions {
  @ArgGroup private Environment environment = new Environment();

  /** Where the program comes from. */
  static final class Environment {
    @Option(
        names = {"-s", "--service"},
        paramLabel = "NAME",
        description = "Run in the image of this service; see 'berth services'.")
    private String service = "";

    @Option(
        names = {"-i", "--image"},
        paramLabel = "IMAGE",
        description = "Run in this image, for example busybox:1.35.")
    private String image = "";
  }

  @Option(
      names = "--entrypoint",
      paramLabel = "WORDS",
      description = "Override the image's entrypoint; '' for none.")
  private Optional<String> entrypoint = Optional.empty();

  @Option(
      names = {"-e", "--env"},
      paramLabel = "K[=V]",
      description = "Set an environment variable; K alone copies the local value. Repeatable.")
  private List<String> variables = new ArrayList<>();

  @Option(
      names = "--env-file",
      paramLabel = "FILE",
      description = "Read environment variables from FILE, one K=V per line; --env overrides.")
  private List<Path> variableFiles = new ArrayList<>();

  @Option(
      names = {"-v", "--mount"},
      paramLabel = "SRC[:DST][:ro]",
      converter = MountConverter.class,
      description = "Bind-mount a folder of the server; repeatable.")
  private List<RunSpec.Mount> mounts = new ArrayList<>();

  /** Whether it was said what to run in. */
  boolean given() {
    return !environment.service.isEmpty() || !environment.image.isEmpty();
  }

  void addTo(RunCodeRequest.Builder request) {
    if (!environment.service.isEmpty()) {
      request.setService(environment.service);
    } else if (!environment.image.isEmpty()) {
      request.setImage(environment.image);
    }
    entrypoint.ifPresent(
        words -> request.setEntrypoint(Entrypoint.newBuilder().addAllWords(Program.words(words))));
    request.putAllEnv(variables());
    for (RunSpec.Mount mount : mounts) {
      request.addMounts(
          Mount.newBuilder()
              .setSource(mount.source())
              .setTarget(mount.target().equals(mount.source()) ? "" : mount.target())
              .setReadOnly(mount.readOnly()));
    }
  }

  void addTo(RunSpec.Builder run) {
    if (!environment.service.isEmpty()) {
      run.service(environment.service);
    } else if (!environment.image.isEmpty()) {
      run.image(environment.image);
    }
    entrypoint.ifPresent(words -> run.entrypoint(Program.words(words)));
    variables().forEach(run::env);
    mounts.forEach(mount -> run.mount(mount.source(), mount.target(), mount.readOnly()));
  }

  private Map<String, String> variables() {
    Map<String, String> env = new LinkedHashMap<>();
    for (Path file : variableFiles) {
      addVariables(env, lines(file), file + ": ");
    }
    addVariables(env, variables, "--env ");
    return env;
  }

  private static List<String> lines(Path file) {
    try {
      return Files.readAllLines(file).stream()
          .filter(line -> !line.isBlank() && !line.startsWith("#"))
          .toList();
    } catch (IOException e) {
      throw new BerthException(Reason.INVALID, "--env-file " + file + ": cannot read file", e);
    }
  }

  private static void addVariables(Map<String, String> env, List<String> variables, String place) {
    for (String variable : variables) {
      int equals = variable.indexOf('=');
      String name = equals < 0 ? variable : variable.substring(0, equals);
      if (name.isBlank()) {
        throw new BerthException(Reason.INVALID, place + "'" + variable + "': expected K=V or K");
      }
      String value = equals < 0 ? System.getenv(name) : variable.substring(equals + 1);
      if (value != null) {
        env.put(name, value);
      }
    }
  }

  static final class MountConverter implements ITypeConverter<RunSpec.Mount> {
    @Override
    public RunSpec.Mount convert(String text) {
      try {
        return RunSpec.Mount.parse(text);
      } catch (BerthException e) {
        throw new TypeConversionException(e.getMessage());
      }
    }
  }
}
