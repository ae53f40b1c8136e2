package berth.cli;

import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.UserId;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options that say in what a program runs, as whom, and what it sees. */
final class ContainerOptions {
  @Mixin private ImageOptions image = new ImageOptions();

  @ArgGroup private User user = new User();

  /** Who the program is. */
  static final class User {
    @Option(
        names = {"-u", "--user"},
        paramLabel = "UID[:GID]",
        converter = UserConverter.class,
        description = "Run as this numeric user and group (default group: same number).")
    private Optional<UserId> given = Optional.empty();

    @Option(names = "--as-me", description = "Run with your own user and group ID.")
    private boolean me;
  }

  @Option(
      names = "--network",
      paramLabel = "own|host|none",
      converter = NetworkConverter.class,
      description = "Network mode (default: own). Servers on --ports need host.")
  private Network network = Network.NETWORK_UNSPECIFIED;

  @Option(
      names = {"-w", "--workdir"},
      paramLabel = "DIR",
      defaultValue = "",
      description = "Working folder (default: /work, where the code is).")
  private String workingDir;

  /** Whether it was said what to run in. */
  boolean given() {
    return image.given();
  }

  void addTo(RunCodeRequest.Builder request) throws IOException {
    image.addTo(request);
    request.setNetwork(network).setWorkingDir(workingDir);
    user.given.ifPresent(request::setUser);
    if (user.me) {
      request.setUser(me());
    }
  }

  private static UserId me() throws IOException {
    Path self = Path.of("/proc/self");
    return UserId.newBuilder()
        .setUid((int) Files.getAttribute(self, "unix:uid"))
        .setGid((int) Files.getAttribute(self, "unix:gid"))
        .build();
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
