package berth.server.run;

import berth.server.state.DurableFiles;
import berth.v1.RunCodeRequest;

/**
 * A request as it came. Its content goes to disk; in memory only the summary stays.
 *
 * @param spec all of it, checked
 */
record RunRequest(RunSpec spec, RunCodeRequest message, RunCodeRequest summary) {
  static RunRequest of(RunCodeRequest message) {
    return new RunRequest(RunMessages.spec(message), message, RunMessages.summary(message));
  }

  RunSpec shown() {
    return RunMessages.spec(summary);
  }

  DurableFiles.Content content() {
    return message::writeTo;
  }

  long bytes() {
    return message.getSerializedSize();
  }
}
