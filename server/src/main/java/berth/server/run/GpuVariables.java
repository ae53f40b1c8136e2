package berth.server.run;

import berth.host.lock.LockedGpu;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The variables that tell a program of its GPUs. */
public final class GpuVariables {
  private GpuVariables() {}

  /** For a program that sees its GPUs only, and so counts them from 0. */
  public static Map<String, String> inContainer(List<LockedGpu> gpus) {
    return variables(
        gpus,
        IntStream.range(0, gpus.size()).mapToObj(String::valueOf).collect(Collectors.joining(",")));
  }

  /** For a program that sees all GPUs of the machine. */
  public static Map<String, String> onHost(List<LockedGpu> gpus) {
    return variables(gpus, indices(gpus));
  }

  public static String indices(List<LockedGpu> gpus) {
    return gpus.stream().map(gpu -> "" + gpu.index()).collect(Collectors.joining(","));
  }

  public static String uuids(List<LockedGpu> gpus) {
    return gpus.stream().map(LockedGpu::uuid).collect(Collectors.joining(","));
  }

  private static Map<String, String> variables(List<LockedGpu> gpus, String visible) {
    Map<String, String> variables = new TreeMap<>();
    variables.put("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (gpus.isEmpty()) {
      // Images for GPUs say 'all' of themselves.
      variables.put("NVIDIA_VISIBLE_DEVICES", "void");
      variables.put("CUDA_VISIBLE_DEVICES", "-1");
    } else {
      variables.put("NV_GPU", indices(gpus));
      variables.put("CUDA_VISIBLE_DEVICES", visible);
    }
    return variables;
  }
}
