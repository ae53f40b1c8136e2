package berth.host.gpu;

/** Told of what {@link GpuMonitor} sees, one call at a time and in order. Must not block. */
public interface GpuListener {
  void sampled(GpuSample sample);

  void healthChanged(GpuHealthChange change);

  /** The monitor stops; nothing follows. */
  void stopped();
}
