package berth.client.call;

import berth.v1.Owner;
import java.net.InetAddress;
import java.net.UnknownHostException;

/** Whom requests of this process belong to. */
public final class ThisUser {
  private ThisUser() {}

  public static Owner owner() {
    return Owner.newBuilder().setUser(System.getProperty("user.name")).setHost(host()).build();
  }

  private static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
