package berth.cli;

import berth.client.TarUnpacker;
import berth.command.SizeConverter;
import picocli.CommandLine.Option;

/** How much a server may send: what it says of its files need not be true. */
final class DownloadLimit {
  @Option(
      names = "--max-size",
      paramLabel = "SIZE",
      defaultValue = "100g",
      converter = SizeConverter.class,
      description = "Download at most this much, for example 500g (default: 100g).")
  private long bytes;

  TarUnpacker.Limits limits() {
    return TarUnpacker.Limits.bytes(bytes);
  }
}
