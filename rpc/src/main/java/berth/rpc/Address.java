package berth.rpc;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Pattern;

/**
 * A host and a TCP port, as people write them: {@code gpu01:18812}, {@code 10.0.0.7:18812}, {@code
 * [::1]:18812}.
 */
public record Address(String host, int port) {
  // Names, IPv4 and IPv6 addresses; whether they exist is for the resolver to say.
  private static final Pattern HOST = Pattern.compile("[\\w.-]+|[\\p{XDigit}:.]+(%[\\w.-]+)?");

  public Address {
    if (!HOST.matcher(host).matches()) {
      throw new BerthException(Reason.INVALID, "'" + host + "' is not a host name");
    }
    if (port < 0 || port > 65535) {
      throw new BerthException(Reason.INVALID, "port " + port + " is not between 0 and 65535");
    }
  }

  /** Reads {@code HOST:PORT} or {@code HOST}; without a port {@code defaultPort} is meant. */
  public static Address parse(String text, int defaultPort) {
    String trimmed = text.trim();
    int colon = trimmed.lastIndexOf(':');
    boolean bareIpv6 = colon >= 0 && trimmed.indexOf(':') != colon && !trimmed.startsWith("[");
    if (colon < 0 || bareIpv6 || trimmed.endsWith("]")) {
      return new Address(withoutBrackets(trimmed), defaultPort);
    }
    String port = trimmed.substring(colon + 1);
    try {
      return new Address(withoutBrackets(trimmed.substring(0, colon)), Integer.parseInt(port));
    } catch (NumberFormatException e) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "' is not HOST:PORT: '" + port + "' is not a number");
    }
  }

  private static String withoutBrackets(String host) {
    return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
  }

  /** Whether only processes of this machine can reach a server that listens here. */
  public boolean isLoopback() {
    return resolve().isLoopbackAddress();
  }

  /**
   * Whether these very words lead every machine to itself, or to nobody: loopback and the wildcard,
   * but no name that only this machine takes for its own.
   */
  public boolean leadsNowhereElse() {
    return host.equalsIgnoreCase("localhost")
        || host.matches("127\\.[0-9.]*|0\\.0\\.0\\.0|::|::1|::ffff:127\\.[0-9.]*");
  }

  /** Whether this is surely another machine's, or one that others reach; not if nobody knows. */
  public boolean isElsewhere() {
    try {
      return !isLoopback();
    } catch (BerthException e) {
      return false;
    }
  }

  /**
   * The address of the host.
   *
   * @throws BerthException if it has none
   */
  public InetAddress resolve() {
    try {
      return InetAddress.getByName(host);
    } catch (UnknownHostException e) {
      throw new BerthException(Reason.INVALID, "host '" + host + "' has no address", e);
    }
  }

  @Override
  public String toString() {
    return (host.indexOf(':') >= 0 ? "[" + host + "]" : host) + ":" + port;
  }
}
