package berth.server.run;

import berth.host.state.DurableFiles;
import berth.v1.RunCodeRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/** A run that is over, as a daemon finds it on its disk. */
public final class EndedRun {
  public static final String ID = "run-0000000001";

  /** All that it printed, on one stream. */
  public static final String OUTPUT = "epoch 1\nepoch 2\n";

  private EndedRun() {}

  public static void write(Path state, DurableFiles disk) throws IOException {
    RunStore store = new RunStore(state.resolve("runs"), disk);
    RunFolder folder = store.folderOf(ID);
    RunRecord accepted =
        RunRecord.accepted(ID, "request", 1, Instant.now(), RunRecord.Phase.PREPARING);
    store.add(
        accepted,
        RunRequest.of(
            RunCodeRequest.newBuilder()
                .setImage("a:1")
                .addCommand("train")
                .addOutputs("model/*.h5")
                .setDetached(true)
                .build()));
    folder.createForProgram();
    Files.writeString(folder.spool().resolve(OutputStreamKind.STDOUT.fileName()), OUTPUT);
    Files.writeString(folder.spool().resolve("complete"), "");
    Files.createDirectory(folder.work().resolve("model"));
    Files.writeString(folder.work().resolve("model/digits.h5"), "weights");
    store.save(ended(accepted).at(RunRecord.Phase.CLEANED));
    folder.deleteForProgram();
  }

  private static RunRecord ended(RunRecord accepted) {
    return accepted
        .running(
            new RunRecord.Started(
                "", Instant.now(), 1, OptionalInt.empty(), false, List.of(), Optional.empty()))
        .ended(
            new RunRecord.Ended(
                0,
                RunRecord.ExitReason.FINISHED,
                "",
                Duration.ofSeconds(9),
                OptionalLong.empty(),
                0,
                Instant.now(),
                OUTPUT.length()));
  }
}
