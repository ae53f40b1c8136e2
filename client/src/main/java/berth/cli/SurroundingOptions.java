package berth.cli;

import berth.client.Program;
import berth.client.RunSpec;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Entrypoint;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.UserId;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options that say in what a program runs, and what it sees. */
final class SurroundingOptions {
  @ArgGroup private Environment environment = new Environment();

  /** Where the program comes from. */
  static final class Environment {
    @Option(
        names = {"-s", "--service"},
        paramLabel = "NAME",
        description =
            "Run in the image that the administrator gave this name; see 'berth services'.")
    private String service = "";

    @Option(
        names = {"-i", "--image"},
        paramLabel = "IMAGE",
        description = "Run in this image, such as busybox:1.35.")
    private String image = "";
  }

  @Option(
      names = "--entrypoint",
      paramLabel = "WORDS",
      description = "Replace the image's entrypoint; '' for none.")
  private Optional<String> entrypoint = Optional.empty();

  @Option(
      names = {"-e", "--env"},
      paramLabel = "K[=V]",
      description =
          "Set a variable; may be repeated. A name alone takes it from here, if it is set here.")
  private List<String> variables = new ArrayList<>();

  @Option(
      names = "--env-file",
      paramLabel = "FILE",
      description = "Set the variables that FILE has, one K=V a line; --env wins over it.")
  private List<Path> variableFiles = new ArrayList<>();

  @Option(
      names = {"-v", "--mount"},
      paramLabel = "SRC[:DST][:ro]",
      converter = MountConverter.class,
      description = "Show a folder of the server to the program; may be repeated.")
  private List<Mount> mounts = new ArrayList<>();

  @ArgGroup private User user = new User();

  /** Who the program is. */
  static final class User {
    @Option(
        names = {"-u", "--user"},
        paramLabel = "UID[:GID]",
        converter = UserConverter.class,
        description = "Run as this user, by number. Without a group: the one of the same number.")
    private Optional<UserId> given = Optional.empty();

    @Option(names = "--as-me", description = "Run with the numbers of your own user and group.")
    private boolean me;
  }

  @Option(
      names = "--network",
      paramLabel = "own|host|none",
      converter = NetworkConverter.class,
      description =
          "The network that the program sees (default: own). Those who serve others on --ports need"
              + " host.")
  private Network network = Network.NETWORK_UNSPECIFIED;

  @Option(
      names = {"-w", "--workdir"},
      paramLabel = "DIR",
      defaultValue = "",
      description = "Folder in which the program starts (default: /work, where the code is).")
  private String workingDir;

  String service() {
    return environment.service;
  }

  /** Whether it was said what to run in. */
  boolean given() {
    return !environment.service.isEmpty() || !environment.image.isEmpty();
  }

  void addTo(RunCodeRequest.Builder request) throws IOException {
    if (!environment.service.isEmpty()) {
      request.setService(environment.service);
    } else if (!environment.image.isEmpty()) {
      request.setImage(environment.image);
    }
    entrypoint.ifPresent(
        words -> request.setEntrypoint(Entrypoint.newBuilder().addAllWords(Program.words(words))));
    for (Path file : variableFiles) {
      addVariables(request, lines(file), file + ": ");
    }
    addVariables(request, variables, "--env ");
    request.addAllMounts(mounts).setNetwork(network).setWorkingDir(workingDir);
    user.given.ifPresent(request::setUser);
    if (user.me) {
      request.setUser(me());
    }
  }

  private static List<String> lines(Path file) throws IOException {
    if (!Files.isReadable(file)) {
      throw new BerthException(Reason.INVALID, "--env-file " + file + ": no file that can be read");
    }
    return Files.readAllLines(file).stream()
        .filter(line -> !line.isBlank() && !line.startsWith("#"))
        .toList();
  }

  private static void addVariables(
      RunCodeRequest.Builder request, List<String> variables, String place) {
    for (String variable : variables) {
      int equals = variable.indexOf('=');
      String name = equals < 0 ? variable : variable.substring(0, equals);
      if (name.isBlank()) {
        throw new BerthException(
            Reason.INVALID, place + "'" + variable + "': a variable is K=V, or K alone");
      }
      String value = equals < 0 ? System.getenv(name) : variable.substring(equals + 1);
      if (value != null) {
        request.putEnv(name, value);
      }
    }
  }

  private static UserId me() throws IOException {
    Path self = Path.of("/proc/self");
    return UserId.newBuilder()
        .setUid((int) Files.getAttribute(self, "unix:uid"))
        .setGid((int) Files.getAttribute(self, "unix:gid"))
        .build();
  }

  static final class MountConverter implements ITypeConverter<Mount> {
    @Override
    public Mount convert(String text) {
      try {
        RunSpec.Mount mount = RunSpec.Mount.parse(text);
        return Mount.newBuilder()
            .setSource(mount.source())
            .setTarget(mount.target().equals(mount.source()) ? "" : mount.target())
            .setReadOnly(mount.readOnly())
            .build();
      } catch (BerthException e) {
        throw new TypeConversionException(e.getMessage());
      }
    }
  }

  static final class UserConverter implements ITypeConverter<UserId> {
    @Override
    public UserId convert(String text) {
      String[] parts = text.split(":", 2);
      try {
        return UserId.newBuilder()
            .setUid(Integer.parseUnsignedInt(parts[0]))
            .setGid(Integer.parseUnsignedInt(parts[parts.length - 1]))
            .build();
      } catch (NumberFormatException e) {
        throw new TypeConversionException("'" + text + "' is not UID or UID:GID, such as 1000:100");
      }
    }
  }

  static final class NetworkConverter implements ITypeConverter<Network> {
    @Override
    public Network convert(String text) {
      return switch (text) {
        case "own" -> Network.NETWORK_OWN;
        case "host" -> Network.NETWORK_HOST;
        case "none" -> Network.NETWORK_NONE;
        default -> throw new TypeConversionException("'" + text + "' is not own, host or none");
      };
    }
  }
}
