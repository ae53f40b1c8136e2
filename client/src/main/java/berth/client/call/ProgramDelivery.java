package berth.client.call;

import berth.client.spec.Program;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.FileFailure;
import berth.v1.Entrypoint;
import berth.v1.ListServicesResponse;
import berth.v1.RunCodeRequest;
import berth.v1.Service;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/**
 * Brings a program to servers: its files are packed once for all of them, and each that lacks them
 * gets them once. Any thread may call.
 */
public final class ProgramDelivery implements AutoCloseable {
  private static final Duration UPLOAD_PATIENCE = Duration.ofSeconds(60);
  private static final int LONGEST_NAME = 200;

  private final Program program;
  private final List<String> pip;
  private final Optional<Path> requirements;
  private final Optional<Bundle> files;

  /**
   * @param pip packages of Python that are installed before it starts
   */
  public ProgramDelivery(Program program, List<String> pip) {
    this(program, pip, Optional.empty());
  }

  /**
   * @param pip packages of Python that are installed before it starts
   * @param requirements a file of this machine that lists more of them, as pip takes it
   */
  public ProgramDelivery(Program program, List<String> pip, Optional<Path> requirements) {
    this.program = program;
    this.pip = List.copyOf(pip);
    this.requirements = requirements;
    this.files = program.bundle().map(Bundle::new);
  }

  /**
   * Adds code and command to a request for one server, and uploads the files if it lacks them.
   *
   * @param request knows service, entrypoint and name already, if there are any
   * @param services what this server has; asked for only if that matters
   * @param words changes each word of the command, or of the arguments of the script
   * @throws IOException if a file cannot be read
   * @throws BerthException if the program is none, or the upload fails
   */
  public void complete(
      RunCodeRequest.Builder request,
      RunClient client,
      Supplier<ListServicesResponse> services,
      UnaryOperator<String> words)
      throws IOException {
    new ProgramCode(program.with(words))
        .addTo(request, before(request), name -> interpreter(name, services.get()));
    if (requirements.isPresent()) {
      request.putFiles(sent(requirements.get()), content(requirements.get()));
    }
    if (files.isPresent()) {
      request.setBundle(files.get().upload(client, UPLOAD_PATIENCE));
    }
  }

  private List<String> before(RunCodeRequest.Builder request) {
    if (pip.isEmpty() && requirements.isEmpty()) {
      return List.of();
    }
    List<String> before =
        new ArrayList<>(PipInstall.before(pip, requirements.map(ProgramDelivery::sent)));
    if (request.hasEntrypoint()) {
      // It may be what runs the program, rather than what runs any command.
      before.addAll(request.getEntrypoint().getWordsList());
      request.setEntrypoint(Entrypoint.getDefaultInstance());
    }
    if (request.getName().isEmpty()) {
      // Nobody wants to read all of that in a list of runs.
      String name = String.join(" ", program.words());
      request.setName(name.substring(0, Math.min(name.length(), LONGEST_NAME)));
    }
    return before;
  }

  // In a folder of its own, so that it replaces nothing of a bundle.
  private static String sent(Path requirements) {
    return ".berth-requirements/" + requirements.getFileName();
  }

  private static ByteString content(Path requirements) {
    try {
      return ByteString.copyFrom(Files.readAllBytes(requirements));
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID,
          "cannot read the requirements " + requirements + ": " + FileFailure.why(e),
          e);
    }
  }

  private static List<String> interpreter(String name, ListServicesResponse services) {
    for (Service service : services.getServicesList()) {
      if (Stream.concat(Stream.of(service.getName()), service.getAliasesList().stream())
          .anyMatch(name::equalsIgnoreCase)) {
        return service.getInterpreterList();
      }
    }
    return List.of();
  }

  @Override
  public void close() {
    files.ifPresent(Bundle::close);
  }
}
