package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.RunEngine.Progress;
import berth.server.run.RunEngine.Pull;
import com.github.dockerjava.api.command.InspectImageResponse;
import com.github.dockerjava.api.exception.DockerClientException;
import com.github.dockerjava.api.exception.DockerException;
import com.github.dockerjava.api.exception.NotFoundException;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The images of an engine. */
final class Images {
  private static final Logger log = LoggerFactory.getLogger(Images.class);
  private static final Duration ASK_AGAIN = Duration.ofMillis(100);

  private final EngineClient engine;

  Images(EngineClient engine) {
    this.engine = engine;
  }

  /**
   * Returns an image, which is fetched if it is missing and may be.
   *
   * @param neverFetched why it may not be
   * @throws BerthException if it cannot be had, or is no longer wanted
   */
  InspectImageResponse get(String name, Optional<String> neverFetched, Progress progress)
      throws InterruptedException {
    try {
      return engine.asking(() -> engine.commands().inspectImageCmd(name).exec());
    } catch (NotFoundException e) {
      if (neverFetched.isPresent()) {
        throw imageNotFound(name, neverFetched.get());
      }
      pull(name, progress);
    }
    try {
      return engine.asking(() -> engine.commands().inspectImageCmd(name).exec());
    } catch (NotFoundException e) {
      throw imageNotFound(name, "the engine does not have it after pulling it");
    }
  }

  private void pull(String name, Progress progress) throws InterruptedException {
    log.info("pulling {}", name);
    progress.pulling(new Pull(name, 0, 0, 0, 0));
    boolean exact = name.contains("@") || name.lastIndexOf(':') > name.lastIndexOf('/');
    try (ImagePull pull = new ImagePull(name, progress::pulling)) {
      engine.commands().pullImageCmd(exact ? name : name + ":latest").exec(pull);
      while (!pull.awaitEnd(ASK_AGAIN)) {
        if (!progress.wanted()) {
          throw new BerthException(Reason.CANCELLED, "pulling " + name + " was cancelled");
        }
        if (pull.silence().compareTo(engine.silence()) > 0) {
          throw notFetched(
              Reason.UNAVAILABLE,
              name,
              "no answer from the engine for " + pull.silence().toSeconds() + " s");
        }
      }
      if (pull.failure().isPresent()) {
        throw notFetched(name, pull.failure().get());
      }
    } catch (DockerException e) {
      String why = EngineClient.text(e);
      throw EngineFault.isRefusal(e) ? imageNotFound(name, why) : notFetched(name, why);
    } catch (DockerClientException e) {
      throw notFetched(name, EngineClient.text(e));
    } catch (IOException e) {
      throw engine.unreachable(e);
    }
  }

  // A registry that is away for a while is no fault of who wants an image of it.
  private static BerthException notFetched(String image, String why) {
    return notFetched(
        EngineFault.isServers(why) ? Reason.UNAVAILABLE : Reason.NOT_FOUND, image, why);
  }

  private static BerthException imageNotFound(String image, String why) {
    return notFetched(Reason.NOT_FOUND, image, why);
  }

  private static BerthException notFetched(Reason reason, String image, String why) {
    return new BerthException(
        reason, "image " + image + " is not on this server and cannot be pulled: " + why);
  }
}
