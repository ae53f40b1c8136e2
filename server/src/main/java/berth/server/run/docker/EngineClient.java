package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.exception.DockerException;
import com.github.dockerjava.core.DefaultDockerClientConfig;
import com.github.dockerjava.core.DockerClientImpl;
import com.github.dockerjava.zerodep.ZerodepDockerHttpClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** The connections to a Docker engine. No call on them waits for ever for one that hangs. */
final class EngineClient implements AutoCloseable {
  private static final int MOST_CONNECTIONS = 2000;
  private static final int MOST_BROKEN = 20;
  private static final Duration CONNECTING = Duration.ofSeconds(5);

  /**
   * How long an engine may say nothing.
   *
   * @param brief to a question that it answers from memory
   * @param lengthy while it makes, starts, fetches or removes something, or waits for its end
   * @param outage how long it may be away for a restart
   * @param retry the pause before it is called again
   */
  record Patience(Duration brief, Duration lengthy, Duration outage, Duration retry) {
    static final Patience USUAL =
        new Patience(
            Duration.ofSeconds(10),
            Duration.ofMinutes(5),
            Duration.ofSeconds(60),
            Duration.ofMillis(250));
  }

  /** Something that takes several calls. */
  interface Work<T> {
    T run() throws InterruptedException;
  }

  private final String host;
  private final Patience patience;
  private final DockerClient client;
  private final ExecutorService callers =
      Executors.newCachedThreadPool(DaemonThreads.numbered("docker-call"));

  /** Does not need the engine to be there yet. */
  EngineClient(String host, Patience patience) {
    this(host, patience, client(host));
  }

  EngineClient(String host, Patience patience, DockerClient client) {
    this.host = host;
    this.patience = patience;
    this.client = client;
  }

  private static DockerClient client(String host) {
    DefaultDockerClientConfig config =
        DefaultDockerClientConfig.createDefaultConfigBuilder()
            .withDockerHost(host)
            .withDockerTlsVerify(false)
            .build();
    return DockerClientImpl.getInstance(
        config,
        new ZerodepDockerHttpClient.Builder()
            .dockerHost(config.getDockerHost())
            .maxConnections(MOST_CONNECTIONS)
            .connectionTimeout(CONNECTING)
            .build());
  }

  /** To make commands with; they are executed by one of the methods here, or with a callback. */
  DockerClient commands() {
    return client;
  }

  /** How long a command with a callback may hear nothing. */
  Duration silence() {
    return patience.lengthy;
  }

  /** The pause before the engine is called again. */
  Duration retry() {
    return patience.retry;
  }

  /**
   * Does something with the engine.
   *
   * @throws BerthException also for answers that nobody expects of an engine
   */
  <T> T understood(Work<T> work) throws InterruptedException {
    try {
      return work.run();
    } catch (BerthException e) {
      throw e;
    } catch (RuntimeException e) {
      boolean refused = e instanceof DockerException answer && EngineFault.isRefusal(answer);
      throw new BerthException(
          refused ? Reason.CONFLICT : Reason.UNAVAILABLE,
          "the Docker engine at " + host + " gave an unexpected answer: " + text(e),
          e);
    }
  }

  /** Asks for what the engine knows, now or not at all. */
  <T> T ask(Supplier<T> call) {
    return answered(patience.brief, call);
  }

  /** Has the engine do something, now or not at all. */
  <T> T order(Supplier<T> call) {
    return answered(patience.lengthy, call);
  }

  /** As {@link #ask}, and again while the engine is away for a restart. */
  <T> T asking(Supplier<T> call) throws InterruptedException {
    return calling(patience.brief, call);
  }

  /** As {@link #order}, and again while the engine is away for a restart. */
  <T> T ordering(Supplier<T> call) throws InterruptedException {
    return calling(patience.lengthy, call);
  }

  // Connections that were kept from before a restart of the engine break when they are used.
  private <T> T answered(Duration limit, Supplier<T> call) {
    for (int broken = 0; ; broken++) {
      try {
        return within(limit, call);
      } catch (DockerException e) {
        throw e;
      } catch (RuntimeException e) {
        if (broken == MOST_BROKEN
            || rootOf(e) instanceof ConnectException
            || isTimeout(e)
            || Thread.currentThread().isInterrupted()) {
          throw e;
        }
      }
    }
  }

  // What the engine answers is a DockerException; anything else means that it did not answer.
  private <T> T calling(Duration limit, Supplier<T> call) throws InterruptedException {
    long deadline = System.nanoTime() + patience.outage.toNanos();
    while (true) {
      try {
        return within(limit, call);
      } catch (DockerException e) {
        throw e;
      } catch (RuntimeException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw new InterruptedException();
        }
        if (System.nanoTime() - deadline > 0) {
          throw unreachable(e);
        }
        Thread.sleep(patience.retry.toMillis());
      }
    }
  }

  // The library's own limits have no effect on sockets of this machine, but an interruption has.
  private <T> T within(Duration limit, Supplier<T> call) {
    Future<T> answer = callers.submit(call::get);
    try {
      return answer.get(limit.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      throw new UncheckedIOException(
          new SocketTimeoutException("no answer for " + limit.toMillis() / 1000.0 + " s"));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException failure) {
        throw failure;
      }
      throw new IllegalStateException(e.getCause());
    } finally {
      answer.cancel(true);
    }
  }

  BerthException unreachable(Exception e) {
    return new BerthException(
        Reason.UNAVAILABLE,
        "no Docker engine answers at "
            + host
            + " ("
            + text(e)
            + "); start it, or start berthd with --runtime process",
        e);
  }

  /** Whether an engine took a call and has not answered in time. */
  static boolean isTimeout(Exception e) {
    return rootOf(e) instanceof SocketTimeoutException;
  }

  /** What went wrong, as one sentence. The engine's answers are JSON with one in it. */
  static String text(Exception e) {
    String message = String.valueOf(rootOf(e).getMessage()).trim();
    int from = message.indexOf("{\"message\":\"");
    if (from >= 0) {
      String rest = message.substring(from + "{\"message\":\"".length());
      int to = rest.lastIndexOf("\"}");
      message = to < 0 ? rest : rest.substring(0, to);
    }
    return message.replace("\\\"", "\"").replace("\\n", " ").replaceAll("\\s+", " ");
  }

  private static Throwable rootOf(Exception e) {
    Throwable root = e;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root;
  }

  @Override
  public void close() throws IOException {
    callers.shutdownNow();
    client.close();
  }
}
