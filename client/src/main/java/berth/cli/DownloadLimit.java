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

  @Option(names = "--force", description = "Overwrite local files.")
  private boolean force;

  /** Whether local files may be overwritten. */
  boolean force() {
    return force;
  }

  TarUnpacker.Existing existing() {
    return force ? TarUnpacker.Existing.REPLACE : TarUnpacker.Existing.KEEP;
  }

  TarUnpacker.Limits limits() {
    return TarUnpacker.Limits.bytes(bytes);
  }
}
