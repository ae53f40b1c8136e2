package berth.e2e.soak;

/** What a soak does to what runs. */
enum Fault {
  TASK_KILLED("programs killed", 6),
  SERVER_KILLED("berthd killed", 3),
  SERVER_STOPPED("berthd stopped", 2),
  SUPERVISOR_KILLED("supervisors killed", 3),
  REGISTRY_KILLED("registry killed", 1),
  CLIENT_KILLED("clients killed", 2),
  /** Shorter than the lease of what a cluster holds. */
  SHORT_CUT("short network cuts", 2),
  LONG_CUT("long network cuts", 1),
  CLUSTER_CANCELLED("clusters cancelled", 2),
  RUN_CANCELLED("runs cancelled", 2);

  private final String words;
  private final int share;

  Fault(String words, int share) {
    this.words = words;
    this.share = share;
  }

  /** In the plural. */
  String words() {
    return words;
  }

  /** How often it happens among the others. */
  int share() {
    return share;
  }
}
