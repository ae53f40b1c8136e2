package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

class ServerOptionTest {
  private static final Address NOWHERE = new Address("127.0.0.1", 1);

  @Command
  private static final class Sample {
    @Mixin private final ServerOption server;

    Sample(Address local) {
      server = new ServerOption(local);
    }
  }

  @Test
  void withoutARegistryAndAServerHereItSaysWhatToSet() {
    assertThatThrownBy(() -> parse(NOWHERE, "--registry", "none").servers())
        .hasMessage(
            "the registry is set to 'none', and no berthd runs on this machine (127.0.0.1:1): use"
                + " --registry HOST or --server HOST, or set BERTH_REGISTRY");
  }

  @Test
  void withoutARegistryTheServerOfThisMachineIsAsked() {
    try (FakeRuns here = new FakeRuns();
        Servers servers = parse(here.address(), "--registry", "none").servers()) {
      assertThat(servers.one()).isEqualTo(here.address());
    }
  }

  @Test
  void aNameThatIsNeitherAServerNorAHostIsSaidSo() {
    try (FakeRegistry registry = new FakeRegistry()) {
      String address = registry.address().toString();

      assertThatThrownBy(
              () -> parse(NOWHERE, "--registry", address, "--server", "gpu03.invalid").servers())
          .hasMessage(
              "no server 'gpu03.invalid' in registry "
                  + address
                  + ", and no host of that name; 'berth servers' lists the servers");
    }
  }

  private static ServerOption parse(Address local, String... arguments) {
    Sample sample = new Sample(local);
    new CommandLine(sample).parseArgs(arguments);
    return sample.server;
  }
}
