package berth.http;

import berth.rpc.Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The names under which browsers may call a server. A page of somebody else may have a name that
 * leads to this machine, and could then read what is served here as its own; it cannot change the
 * name that the browser tells.
 */
final class KnownNames {
  private static final Pattern LOOPBACK = Pattern.compile("localhost|127\\.[0-9.]+|\\[::1]");
  // A number is nobody's name.
  private static final Pattern NUMBER = Pattern.compile("[0-9]+(\\.[0-9]+){3}|\\[[0-9a-f:.%]+]");
  private static final Pattern PORT = Pattern.compile(":[0-9]+$");

  private final boolean onlyThisMachine;
  private final Set<String> names = new HashSet<>();

  /**
   * @param further names that people gave this server
   */
  KnownNames(Address address, Collection<String> further) {
    onlyThisMachine = address.isLoopback();
    further.forEach(name -> names.add(lower(name)));
    if (!onlyThisMachine) {
      names.add(lower(address.host()));
      addThisMachine();
    }
  }

  private void addThisMachine() {
    try {
      InetAddress machine = InetAddress.getLocalHost();
      for (String name : List.of(machine.getHostName(), machine.getCanonicalHostName())) {
        names.add(lower(name));
        names.add(lower(name.replaceFirst("\\..*", "")));
      }
    } catch (UnknownHostException e) {
      // It has no name.
    }
  }

  /**
   * Whether a request is meant for this server.
   *
   * @param host as the request says, with or without a port
   */
  boolean contains(String host) {
    String name = PORT.matcher(lower(host)).replaceFirst("");
    return LOOPBACK.matcher(name).matches()
        || names.contains(name)
        || !onlyThisMachine && NUMBER.matcher(name).matches();
  }

  private static String lower(String name) {
    return name.toLowerCase(Locale.ROOT);
  }
}
