package berth;

import java.util.List;
import java.util.regex.Pattern;

/**
 * A Java file of one module, without what the compiler does not look at.
 *
 * @param path from the root of the project, such as {@code server/src/main/java/berth/Main.java}
 * @param code the text without comments and with empty string literals
 */
record SourceFile(String path, String code) {
  private static final Pattern TEXT_OR_COMMENT =
      Pattern.compile(
          "\"\"\".*?\"\"\"|\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)+'"
              + "|//[^\n]*|/\\*.*?\\*/",
          Pattern.DOTALL);
  private static final Pattern PACKAGE = Pattern.compile("(?m)^\\s*package\\s+([\\w.]+)\\s*;");
  private static final Pattern TYPE =
      Pattern.compile("\\b(?:class|interface|enum|record)\\s+([A-Z]\\w*)");

  SourceFile {
    code =
        TEXT_OR_COMMENT
            .matcher(code)
            .replaceAll(found -> found.group().startsWith("/") ? " " : "\"\"");
  }

  String module() {
    return path.substring(0, path.indexOf('/'));
  }

  String packageName() {
    var matcher = PACKAGE.matcher(code);
    return matcher.find() ? matcher.group(1) : "";
  }

  boolean isIn(String packageName) {
    return (packageName() + ".").startsWith(packageName + ".");
  }

  /** Whether this file imports from {@code packageName} or names something in it. */
  boolean mentions(String packageName) {
    return Pattern.compile("(?<![\\w.])" + Pattern.quote(packageName) + "\\s*\\.\\s*[\\w*]")
        .matcher(PACKAGE.matcher(code).replaceAll(""))
        .find();
  }

  /** The simple names of the types that this file declares. */
  List<String> types() {
    return TYPE.matcher(code).results().map(found -> found.group(1)).toList();
  }
}
