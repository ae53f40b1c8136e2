package berth.client;

import berth.v1.Reservation;
import java.util.List;

/**
 * A GPU that a run or a reservation has.
 *
 * @param index the driver's index on its server
 * @param uuid the identity
 */
public record HeldGpu(int index, String uuid) {
  static List<HeldGpu> of(Reservation reservation) {
    return reservation.getGpusList().stream()
        .map(gpu -> new HeldGpu(gpu.getIndex(), gpu.getUuid()))
        .toList();
  }
}
