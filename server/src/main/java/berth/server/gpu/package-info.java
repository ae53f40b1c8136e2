/**
 * The GPUs of this machine, on the wire and as metrics; {@link berth.host.gpu.GpuMonitor} knows
 * them.
 */
package berth.server.gpu;
