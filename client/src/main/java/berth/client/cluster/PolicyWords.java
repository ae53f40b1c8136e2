package berth.client.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Finds constants by the words that people write for them. */
final class PolicyWords {
  private PolicyWords() {}

  /**
   * The one of a word.
   *
   * @throws BerthException if it is none
   */
  static <T> T parse(String word, T[] all, Function<T, String> wordOf) {
    return Stream.of(all)
        .filter(each -> wordOf.apply(each).equals(word))
        .findFirst()
        .orElseThrow(
            () ->
                new BerthException(
                    Reason.INVALID,
                    "'"
                        + word
                        + "' is none of "
                        + Stream.of(all).map(wordOf).collect(Collectors.joining(", "))));
  }
}
