/**
 * The GPUs of this machine. {@link berth.server.gpu.GpuMonitor} samples a {@link
 * berth.server.gpu.GpuSource} in one loop, judges the health of each GPU, and hands the newest
 * {@link berth.server.gpu.GpuSample} to whoever asks; {@link berth.server.gpu.GpuGrpcService} puts
 * it on the wire.
 */
package berth.server.gpu;
