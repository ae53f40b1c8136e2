package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.KeptFolder;
import berth.fuzz.Scratch;
import berth.host.lock.Keeper;
import berth.host.lock.Kept;
import berth.host.lock.KernelFiles;
import berth.host.lock.KnownProcess;
import berth.host.lock.LockedGpu;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.rpc.Vitals;
import berth.server.reservation.ReservationStore.Stored;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** The record of one of two reservations is the input. */
class ReservationStoreFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final Kept THIS_PROCESS =
      new Kept(keeper(), Map.of("gpu0", List.of(3), "port-20000", List.of(4, 5)), Optional.empty());
  private static final DurableFiles DISK = new DurableFiles(new Vitals());
  private static final KeptFolder TWO_RESERVATIONS =
      new KeptFolder(
          folder -> {
            try (ReservationStore store = new ReservationStore(folder, DISK)) {
              store.save(stored("r-1"));
              store.save(stored("r-2"));
            }
          });

  static Stream<byte[]> seeds() throws IOException {
    Path folder = SCRATCH.empty();
    try (ReservationStore store = new ReservationStore(folder, DISK)) {
      store.save(stored("r-2"));
    }
    Path file = folder.resolve("r-2.reservation");
    return Stream.of(Files.readAllBytes(file), RecordFile.read(file));
  }

  @MethodSource("seeds")
  @FuzzTest
  void harmsNoOtherReservation(byte[] data) throws Exception {
    Path folder = TWO_RESERVATIONS.restored();
    try (ReservationStore store = new ReservationStore(folder, DISK)) {
      if (data.length > 0 && data[0] == '#') {
        // As if it had been written so, which a checksum does not keep anybody from.
        DISK.write(folder.resolve("r-2.reservation"), data);
      } else {
        Files.write(folder.resolve("r-2.reservation"), data);
      }
      assertThat(store.load()).extracting(found -> found.reservation().id()).contains("r-1");
    }
  }

  private static Keeper keeper() {
    int pid = (int) ProcessHandle.current().pid();
    return new Keeper(pid, KernelFiles.startOf(pid).orElseThrow());
  }

  private static Stored stored(String id) {
    return new Stored(
        new Reservation(
            id,
            List.of(new LockedGpu(0, "GPU-a"), new LockedGpu(1, "GPU-b")),
            List.of(20000, 20001),
            new Reservation.Owner("anna", "desk"),
            "digits",
            Instant.EPOCH,
            Optional.of(new Reservation.Expiry(Instant.EPOCH, 5)),
            OptionalInt.of(1),
            List.of(),
            "",
            true),
        "request",
        false,
        Optional.of(Duration.ofHours(1)),
        KnownProcess.of(1),
        Optional.of(THIS_PROCESS),
        Map.of("r-1", THIS_PROCESS));
  }
}
