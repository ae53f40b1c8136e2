package berth.client.cluster;

import java.io.IOException;
import java.nio.file.Path;

/** Packages for tests elsewhere, which may then change them as no client of ours would. */
public final class PackedRequest {
  private PackedRequest() {}

  public static void write(ClusterRequest request, Path folder) throws IOException {
    ClusterPackage.write(request, folder);
  }
}
