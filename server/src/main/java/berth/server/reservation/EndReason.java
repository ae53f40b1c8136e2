package berth.server.reservation;

import java.util.Locale;

/** Why a reservation is over. */
enum EndReason {
  RELEASED("released"),
  EXPIRED("its lease has expired"),
  PROCESS_ENDED("its process has ended"),
  KEEPER_KILLED("its keeper was killed"),
  CALLER_GONE("its client disconnected"),
  RUN_ENDED("its run has ended"),
  SERVER_STOPPED("the server stops");

  private final String sentence;

  EndReason(String sentence) {
    this.sentence = sentence;
  }

  /** As a metric has it. */
  String label() {
    return name().toLowerCase(Locale.ROOT);
  }

  @Override
  public String toString() {
    return sentence;
  }
}
