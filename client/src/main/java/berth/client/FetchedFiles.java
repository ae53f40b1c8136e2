package berth.client;

import java.util.List;

/**
 * What came of fetching files.
 *
 * @param count how many files were written
 * @param leftOut what was not, one sentence each: links that lead out of the folder, devices
 */
public record FetchedFiles(int count, List<String> leftOut) {
  public FetchedFiles {
    leftOut = List.copyOf(leftOut);
  }
}
