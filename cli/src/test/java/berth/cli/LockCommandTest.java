package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LockCommandTest {
  private final Map<String, String> environment =
      new HashMap<>(Map.of("LC_ALL", "C.UTF-8", "LANG", "C"));

  @Test
  void leavesALocaleThatTheStartScriptDidNotReplace() {
    LockCommand.restoreLocale(environment, null);
    assertThat(environment).containsOnly(Map.entry("LC_ALL", "C.UTF-8"), Map.entry("LANG", "C"));
  }

  @Test
  void givesBackTheLocaleOfTheCaller() {
    LockCommand.restoreLocale(environment, "POSIX");
    assertThat(environment).containsOnly(Map.entry("LC_ALL", "POSIX"), Map.entry("LANG", "C"));
  }

  @Test
  void removesALocaleThatTheCallerDidNotHave() {
    LockCommand.restoreLocale(environment, "");
    assertThat(environment).containsOnly(Map.entry("LANG", "C"));
  }
}
