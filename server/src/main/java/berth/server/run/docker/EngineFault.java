package berth.server.run.docker;

import com.github.dockerjava.api.exception.DockerException;
import java.util.regex.Pattern;

/**
 * Whose fault it is that an engine did not do something: that of what was asked for, which fails
 * again, or of this server, which may do it later. Engines say it by their status codes as a rule,
 * and in words where they do not.
 */
final class EngineFault {
  // An engine answers 400 when the words of a failed hook remind it of a missing program.
  private static final Pattern SERVERS =
      Pattern.compile(
          "no space left on device|disk quota exceeded|too many open files"
              + "|error running \\w* ?hook|hook #\\d|nvidia-container-cli|CDI device"
              + "|failed to fulfil mount request|error gathering device information",
          Pattern.CASE_INSENSITIVE);

  // The newest engines answer 400 to some of these, the older ones 500 to all.
  private static final Pattern REQUESTS =
      Pattern.compile(
          "\\bexec: |exec format error|executable file not found|chdir to cwd"
              + "|error mounting|invalid mount|bind source path does not exist"
              + "|not a directory|is a directory|file name too long|too many levels of symbolic"
              + "|rlimit|oom-killed|memory limit|unable to find user",
          Pattern.CASE_INSENSITIVE);

  // An image that needs a newer driver than this server has.
  private static final Pattern IMAGES = Pattern.compile("unsatisfied condition");

  private static final Pattern NO_SUCH_IMAGE =
      Pattern.compile(
          "manifest unknown|name unknown|not found|does not exist|denied|unauthorized"
              + "|authentication required|no basic auth credentials|no matching manifest"
              + "|invalid reference|unsupported media type|cannot be used on this platform"
              + "|no such host|server gave HTTP response to HTTPS client",
          Pattern.CASE_INSENSITIVE);

  private EngineFault() {}

  /** Whether what is refused now may be made or started later. */
  static boolean isServers(DockerException e) {
    String text = EngineClient.text(e);
    if (IMAGES.matcher(text).find()) {
      return false;
    }
    return SERVERS.matcher(text).find() || (!isRefusal(e) && !REQUESTS.matcher(text).find());
  }

  /** Whether an image that could not be fetched may be later. */
  static boolean isServers(String pullFailure) {
    return SERVERS.matcher(pullFailure).find() || !NO_SUCH_IMAGE.matcher(pullFailure).find();
  }

  /** Whether an engine has understood what was asked, and does not do it. */
  static boolean isRefusal(DockerException e) {
    return e.getHttpStatus() >= 400 && e.getHttpStatus() < 500;
  }
}
