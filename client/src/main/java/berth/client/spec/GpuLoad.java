package berth.client.spec;

import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * How busy a GPU was in the newest sample of its server. What is empty the driver does not tell, or
 * the server did not answer.
 *
 * @param utilizationPercent of the time in which a kernel was executing, 0 to 100
 * @param usedMemoryBytes allocated memory, with what the driver keeps for itself
 * @param temperatureCelsius of the core
 * @param powerMilliwatts power draw
 * @param powerLimitMilliwatts where the GPU throttles itself
 */
public record GpuLoad(
    OptionalInt utilizationPercent,
    OptionalLong usedMemoryBytes,
    OptionalInt temperatureCelsius,
    OptionalInt powerMilliwatts,
    OptionalInt powerLimitMilliwatts) {
  /** Of which nothing is known. */
  public static final GpuLoad UNKNOWN =
      new GpuLoad(
          OptionalInt.empty(),
          OptionalLong.empty(),
          OptionalInt.empty(),
          OptionalInt.empty(),
          OptionalInt.empty());
}
