package berth.server.run;

import berth.host.state.DurableFiles;
import berth.v1.RunCodeRequest;

/**
 * A request as it came. Its content goes to disk; in memory only the summary stays.
 *
 * @param spec all of it, checked
 */
record RunRequest(RequestedRun spec, RunCodeRequest message, RunCodeRequest summary) {
  // Thousands of them are in memory, and are read at a start.
  private static final int LONGEST_SUMMARY = 256 << 10;

  /**
   * @throws berth.rpc.BerthException INVALID if it breaks a rule, or too much of it would stay
   */
  static RunRequest of(RunCodeRequest message) {
    RequestedRun spec = RunMessages.spec(message);
    RunCodeRequest summary = RunMessages.summary(message);
    if (summary.getSerializedSize() > LONGEST_SUMMARY) {
      throw RequestedRun.invalid(
          "the summary of the run has "
              + summary.getSerializedSize()
              + " bytes, "
              + LONGEST_SUMMARY
              + " are allowed: shorten its outputs, or the names of its files");
    }
    return new RunRequest(spec, message, summary);
  }

  RequestedRun shown() {
    return RunMessages.spec(summary);
  }

  DurableFiles.Content content() {
    return message::writeTo;
  }

  long bytes() {
    return message.getSerializedSize();
  }
}
