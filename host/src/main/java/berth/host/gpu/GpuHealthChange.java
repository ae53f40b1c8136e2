package berth.host.gpu;

import java.time.Instant;

/** One GPU's health before and after, and when that was noticed. */
public record GpuHealthChange(
    String uuid, int index, GpuHealth before, GpuHealth after, Instant noticed) {}
