package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Messages;
import berth.v1.ListReservationsResponse;
import berth.v1.Owner;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;

class ReservationTableTest {
  private static final Instant NOON = Instant.parse("2026-11-16T12:00:00Z");

  private static Reservation.Builder reservation(int gpu) {
    return Reservation.newBuilder()
        .setReservationId("r-" + gpu)
        .addGpus(ReservedGpu.newBuilder().setIndex(gpu))
        .setOwner(Owner.newBuilder().setUser("ann").setHost("lap"))
        .setGrantedAt(Messages.timestamp(NOON))
        .setRemaining(Messages.duration(Duration.ofSeconds(29)));
  }

  @Test
  void whatIsRenewedHasNoEndToWaitFor() {
    String text =
        new ReservationTable(new TimeText(NOON, ZoneOffset.UTC))
            .render(
                ListReservationsResponse.newBuilder()
                    .setServer("gpu01")
                    .addReservations(reservation(0))
                    .addReservations(reservation(1).setRenewed(true))
                    .build());

    assertThat(text.lines().skip(2).map(line -> line.replaceAll(" {2,}", "|")))
        .containsExactly("0|ann@lap|12:00:00|in 29s|r-0", "1|ann@lap|12:00:00|while renewed|r-1");
  }
}
