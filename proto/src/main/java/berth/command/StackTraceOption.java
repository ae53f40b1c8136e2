package berth.command;

import picocli.CommandLine.Option;

/** The option of every command that shows where in the code an unexpected failure happened. */
public final class StackTraceOption {
  @Option(
      names = CommandRunner.STACK_TRACE,
      description = "Show where in the code a failure happened.")
  private boolean wanted;
}
