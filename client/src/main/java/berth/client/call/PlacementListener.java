package berth.client.call;

import berth.rpc.BerthException;
import berth.v1.Server;

/** Is told which servers a request goes to, in the thread that places it. */
public interface PlacementListener {
  /**
   * This server has the request now.
   *
   * @param server as the registry knew it before
   * @param waits whether it has to wait there; it may still be passed on
   */
  void placed(Server server, boolean waits);

  /** This server did not take it; the next one is asked, if there is one. */
  void passed(Server server, BerthException why);
}
