package berth.discovery;

/** How far a query goes. */
public enum Reach {
  /** Not beyond loopback. */
  THIS_MACHINE,
  /** Also to everybody on the networks that this machine is directly connected to, by broadcast. */
  LOCAL_NETWORK
}
