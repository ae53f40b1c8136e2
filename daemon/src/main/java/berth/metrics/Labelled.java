package berth.metrics;

/**
 * A metric of which there is one for each combination of its labels.
 *
 * @param <T> {@link Counter} or {@link Histogram}
 */
public interface Labelled<T> {
  /**
   * The one with these values of the labels, which is shown from now on, also if nothing ever
   * happens to it. Whoever needs it often keeps it: the search for it is what costs.
   *
   * @param values as many as there are labels, each one of few: every one of them is kept for ever
   */
  T with(String... values);
}
