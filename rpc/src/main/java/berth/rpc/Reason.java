package berth.rpc;

/**
 * Why something could not be done, as a caller may react to it. Each has one gRPC status code; see
 * {@link Statuses}.
 */
public enum Reason {
  /** The request is wrong in itself and stays wrong: do not retry. */
  INVALID,
  /** What the request names does not exist. */
  NOT_FOUND,
  /** What the request would create exists already. */
  ALREADY_EXISTS,
  /** The request is right, but not in the present state of what it names. */
  CONFLICT,
  /** A limit is reached, or too little of something is free. */
  EXHAUSTED,
  /** The other side is not there, or not now: retry later. */
  UNAVAILABLE,
  /** The time given by the caller was not enough. */
  TIMED_OUT,
  /** The caller gave up. */
  CANCELLED,
  /** The other side does not know who is calling. */
  UNAUTHENTICATED,
  /** The caller is known and may not do this. */
  DENIED,
  /** The other side does not know this call: it is older or of another kind. */
  UNSUPPORTED,
  /** A defect. The side where it happened has it in its log. */
  INTERNAL
}
