package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Asks many servers the same question. */
public final class ManyServers {
  private static final int AT_ONCE = 16;

  /** What one server answered: exactly one of the two is there. */
  public record Answer<T>(Server server, Optional<T> value, Optional<BerthException> failure) {}

  private ManyServers() {}

  /** Where to call a server. */
  public static Address address(Server server) {
    return Address.parse(server.getInfo().getAddress(), 0);
  }

  /**
   * Asks all {@code servers}, some of them at a time, and returns their answers in the same order.
   * Any thread may call.
   *
   * @param question makes the call, in a thread of its own and with a deadline
   * @throws BerthException if this thread is interrupted; what servers fail with is in the answers
   */
  public static <T> List<Answer<T>> ask(List<Server> servers, Function<Address, T> question) {
    if (servers.isEmpty()) {
      return List.of();
    }
    ExecutorService threads =
        Executors.newFixedThreadPool(
            Math.min(AT_ONCE, servers.size()),
            task -> {
              Thread thread = new Thread(task, "ask-servers");
              thread.setDaemon(true);
              return thread;
            });
    try {
      List<Future<Answer<T>>> pending = new ArrayList<>();
      for (Server server : servers) {
        pending.add(threads.submit(() -> ask(server, question)));
      }
      List<Answer<T>> answers = new ArrayList<>();
      for (Future<Answer<T>> answer : pending) {
        answers.add(answer.get());
      }
      return answers;
    } catch (ExecutionException e) {
      throw new IllegalStateException(e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while asking servers", e);
    } finally {
      threads.shutdownNow();
    }
  }

  private static <T> Answer<T> ask(Server server, Function<Address, T> question) {
    try {
      return new Answer<>(server, Optional.of(question.apply(address(server))), Optional.empty());
    } catch (BerthException e) {
      return new Answer<>(server, Optional.empty(), Optional.of(e));
    }
  }

  /** Who did not answer and why, in words that go on after a message; empty if all did. */
  public static String silent(List<? extends Answer<?>> answers) {
    return answers.stream()
        .filter(answer -> answer.failure().isPresent())
        .map(answer -> "; no answer from " + why(answer))
        .collect(Collectors.joining());
  }

  private static String why(Answer<?> silent) {
    String message = PlainText.clean(silent.failure().get().getMessage());
    String name = silent.server().getInfo().getName();
    return name.isEmpty() ? message : PlainText.clean(name) + ": " + message;
  }
}
