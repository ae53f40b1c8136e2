package berth.server.run;

import berth.rpc.BerthException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Predicate;

/**
 * Where runs run. Any thread may call. What is made for a run is found again after a restart of
 * this process by the run's id alone, and every step may be taken again: a run is started once
 * however often it is asked for.
 */
public interface RunEngine extends AutoCloseable {
  /**
   * What a runtime is and can do.
   *
   * @param name for people and programs: {@code docker} or {@code process}
   * @param engine its version, or why it cannot be used
   * @param gpuAccess how programs get at GPUs, or why they cannot
   * @param toolkit what of NVIDIA's gives GPUs to containers, with its version and what is wrong
   *     with it; empty if there is none
   * @param folders what belongs to the engine on this machine
   */
  record Info(
      String name,
      String engine,
      boolean usable,
      String gpuAccess,
      String toolkit,
      List<Path> folders) {}

  /** How far the fetching of an image is. */
  record Pull(String image, int layersDone, int layers, long bytesDone, long bytes) {}

  /**
   * A program that runs, or has run.
   *
   * @param containerId empty for a plain process
   * @param pid none if it has ended already
   * @param notEnforced what was asked for and cannot be had here, for people
   */
  record Running(String containerId, OptionalInt pid, boolean isolated, List<String> notEnforced) {}

  /**
   * How a program ended.
   *
   * @param at when, if that is known better than by being told
   * @param lost why the end was not the program's own doing nor ours; empty if it was
   */
  record Exit(int code, boolean outOfMemory, Optional<Instant> at, String lost) {
    public Exit lostBecause(String why) {
      return new Exit(code, outOfMemory, at, why);
    }
  }

  /** As it was found last; waits for nobody. */
  Info info();

  /** Looks whether anything can be run at present; if not, says why. */
  Optional<String> problem();

  /**
   * Refuses what cannot be started here, before anything is reserved for it. Waits for nobody.
   *
   * @throws BerthException with the reason
   */
  void check(Launch launch);

  /** Told how far the making ready is. */
  interface Progress {
    void pulling(Pull pull);

    /** Whether somebody still wants it; asked now and then while an image is fetched. */
    boolean wanted();
  }

  /**
   * What is ready to be started.
   *
   * @param mark a word that is part of the command of some process for as long as it runs
   * @param running what {@link #start} will say but for the process, if its call may take longer
   *     than the program takes to print something
   */
  record Created(String mark, Optional<Running> running) {}

  /**
   * Makes ready what is to be started, unless that is there, and fetches its image if it must.
   *
   * @throws BerthException if it cannot be, or is no longer wanted
   */
  Created create(Launch launch, Progress progress) throws InterruptedException;

  /** Starts it, unless it was started before. */
  Running start(Launch launch) throws InterruptedException;

  /** Waits for its end, also through outages of the engine. */
  Exit await(String runId) throws InterruptedException;

  /** Sends a signal, by its name without SIG, if it still runs. KILL ends all its processes. */
  void signal(String runId, String signal);

  /** The most memory it has used so far, as far as the kernel tells. */
  OptionalLong peakMemory(String runId);

  /**
   * What a run takes of this machine's disk beside what is in its working folder.
   *
   * @param folders which the run alone writes to
   * @param unlinkedBytes those of files that have no name any more, but are open
   */
  record DiskShare(List<Path> folders, long unlinkedBytes) {
    static final DiskShare NONE = new DiskShare(List.of(), 0);
  }

  /** As far as it can be told. May take long. */
  default DiskShare diskShare(String runId) {
    return DiskShare.NONE;
  }

  /** Removes what is left of it, if anything is. */
  void remove(String runId);

  /** Removes what runs left behind whom nobody knows any more. */
  void reap(Predicate<String> knownRun);

  @Override
  void close();
}
