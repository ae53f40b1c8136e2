/**
 * The GPUs of this machine. {@link berth.host.gpu.GpuMonitor} samples a {@link
 * berth.host.gpu.GpuSource} in one loop, judges the health of each GPU, and hands the newest {@link
 * berth.host.gpu.GpuSample} to whoever asks.
 */
package berth.host.gpu;
