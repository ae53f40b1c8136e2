package berth.client.call;

import berth.client.spec.Program;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;

/** A program as servers are asked to run it. */
record ProgramCode(Program program) {
  private static final long MAX_SOURCE_BYTES = 8 << 20;

  /**
   * Adds the code and the command, all but the digest of the bundle.
   *
   * @param before words that run what they are followed by; none: the program is run directly
   * @param interpreterOf what the server says runs the sources of a service; none: empty
   */
  void addTo(
      RunCodeRequest.Builder request,
      List<String> before,
      Function<String, List<String>> interpreterOf)
      throws IOException {
    if (program.words().isEmpty() || program.isCommand()) {
      request.addAllCommand(before).addAllCommand(program.words());
    } else if (program.bundle().isPresent()) {
      addBundledScript(request, before, interpreterOf);
    } else {
      addSource(request, before, interpreterOf);
    }
  }

  private void addSource(
      RunCodeRequest.Builder request,
      List<String> before,
      Function<String, List<String>> interpreterOf)
      throws IOException {
    Path script = program.script();
    long size = Files.size(script);
    if (size > MAX_SOURCE_BYTES) {
      throw new BerthException(
          Reason.INVALID,
          script
              + " has "
              + size
              + " bytes, at most 8 MiB can be sent alone: send the folder that it is in along");
    }
    Source.Builder source =
        Source.newBuilder()
            .setFileName(script.getFileName().toString())
            .setContent(ByteString.copyFrom(Files.readAllBytes(script)));
    if (!before.isEmpty()) {
      source.addAllInterpreter(before).addAllInterpreter(runner(request, script, interpreterOf));
    } else if (!program.interpreter().isEmpty()) {
      source.addAllInterpreter(program.interpreter());
    } else if (!request.hasService() && Program.firstLine(script).isEmpty()) {
      source.addAllInterpreter(byName(script));
    }
    request.setSource(source).addAllCommand(arguments());
  }

  // The server knows nothing of a script in a bundle, so the command names what runs it.
  private void addBundledScript(
      RunCodeRequest.Builder request,
      List<String> before,
      Function<String, List<String>> interpreterOf)
      throws IOException {
    request
        .addAllCommand(before)
        .addAllCommand(runner(request, program.script(), interpreterOf))
        .addCommand(program.words().get(0))
        .addAllCommand(arguments());
  }

  private List<String> runner(
      RunCodeRequest.Builder request, Path script, Function<String, List<String>> interpreterOf)
      throws IOException {
    List<String> runner = program.interpreter();
    if (runner.isEmpty() && request.hasService()) {
      runner = interpreterOf.apply(request.getService());
    }
    if (runner.isEmpty()) {
      runner = Program.firstLine(script);
    }
    return runner.isEmpty() ? byName(script) : runner;
  }

  private List<String> arguments() {
    return program.words().subList(1, program.words().size());
  }

  private static List<String> byName(Path script) {
    String name = script.getFileName().toString();
    if (name.endsWith(".py")) {
      return List.of("python3", "-u");
    }
    if (name.endsWith(".sh")) {
      return List.of("sh");
    }
    throw new BerthException(
        Reason.INVALID,
        "no interpreter for "
            + script
            + ": name one, or use a service that has one, a #! line, or the extension .py or"
            + " .sh");
  }
}
