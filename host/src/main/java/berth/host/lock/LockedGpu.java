package berth.host.lock;

/** A GPU whose lock is held, by its index and its identity. */
public record LockedGpu(int index, String uuid) {}
