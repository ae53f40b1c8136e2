package berth.cli;

import berth.client.call.Download;
import berth.client.call.RunClient;
import berth.client.call.TarUnpacker;
import berth.command.SizeConverter;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.DownloadFilesRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
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

  /** Fetches files as {@link Download#into} does. */
  int download(
      Path folder,
      RunClient client,
      DownloadFilesRequest request,
      UnaryOperator<String> rename,
      Consumer<String> notes)
      throws IOException {
    try {
      return Download.into(
          folder,
          client,
          request,
          rename,
          TarUnpacker.Limits.bytes(bytes),
          force ? TarUnpacker.Existing.REPLACE : TarUnpacker.Existing.KEEP,
          notes);
    } catch (BerthException e) {
      throw e.reason() == Reason.ALREADY_EXISTS
          ? new BerthException(e.reason(), e.getMessage() + "; use --force to overwrite", e)
          : e;
    }
  }
}
