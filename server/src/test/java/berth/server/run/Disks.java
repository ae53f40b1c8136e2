package berth.server.run;

import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** Disks for tests. */
public final class Disks {
  /** Room for all that a test does. */
  public static final Runs.Storage PLENTY =
      new Runs.Storage(
          Long.MAX_VALUE, Optional.of(0L), Optional.empty(), 10_000, 10_000, Long.MAX_VALUE);

  private Disks() {}

  static StateDisk roomy(Path folder) {
    return new StateDisk("gpu01", folder, Optional.of(0L));
  }

  static DurableFiles durable() {
    return new DurableFiles(new Vitals());
  }

  /** One on which nothing can be written while it is full, or whose writers fail afterwards. */
  static final class Fillable extends DurableFiles {
    volatile boolean full;
    volatile boolean failsAfterWriting;

    Fillable() {
      super(new Vitals());
    }

    @Override
    public void writeAll(Map<Path, Content> contents, Path... alsoFlushed) throws IOException {
      if (full) {
        throw new IOException("No space left on device");
      }
      super.writeAll(contents, alsoFlushed);
      if (failsAfterWriting) {
        throw new InternalError("the virtual machine failed");
      }
    }
  }
}
