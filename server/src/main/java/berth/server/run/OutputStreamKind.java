package berth.server.run;

/** The two streams of a program's output. */
enum OutputStreamKind {
  STDOUT("stdout"),
  STDERR("stderr");

  private final String fileName;

  OutputStreamKind(String fileName) {
    this.fileName = fileName;
  }

  String fileName() {
    return fileName;
  }

  OutputStreamKind other() {
    return this == STDOUT ? STDERR : STDOUT;
  }
}
