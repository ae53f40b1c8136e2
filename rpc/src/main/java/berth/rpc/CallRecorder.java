package berth.rpc;

/** Hears of the calls that a server takes, to count and measure them. Any thread may call. */
public interface CallRecorder {
  /**
   * A method that is served, before its first call.
   *
   * @param name with its service, as in {@code berth.v1.GpuService/ListGpus}
   */
  Method method(String name);

  /** What happens to the calls of one method. */
  interface Method {
    void started();

    /**
     * A call got its answer, or the first message of its stream.
     *
     * @param nanos since it was asked completely
     */
    void answered(long nanos);

    /**
     * A call is over. Not every call was answered.
     *
     * @param code gRPC's status; {@code CANCELLED} if the caller went away
     */
    void finished(String code);
  }
}
