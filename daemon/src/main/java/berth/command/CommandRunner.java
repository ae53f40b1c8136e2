package berth.command;

import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.PlainText;
import berth.text.FileFailure;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import picocli.CommandLine;
import picocli.CommandLine.MutuallyExclusiveArgsException;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** Runs a command with errors of one line and exit codes as docker has them. */
public final class CommandRunner {
  static final String STACK_TRACE = "--stacktrace";

  private static final int MOST_WRONG_LETTERS = 2;

  // As picocli refuses what is no pair for an option with a map.
  private static final Pattern NO_PAIR =
      Pattern.compile(
          "Value for option option '(?<option>[^']+)'.* should be in (?<form>\\S+) format but was"
              + " (?<value>.*)");

  private final CommandLine command;
  private ConfigFile config;

  private CommandRunner(CommandLine command) {
    this.command = command;
  }

  /**
   * Runs {@code command}, an object with picocli's annotations, and returns the exit code of the
   * process.
   */
  public static int run(Object command, String... args) {
    return run(command, UnaryOperator.identity(), args);
  }

  /** The same, after {@code customize} added what annotations cannot say. */
  public static int run(Object command, UnaryOperator<CommandLine> customize, String... args) {
    CommandLine line =
        customize.apply(
            new CommandLine(command)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setUsageHelpAutoWidth(true)
                .setUsageHelpLongOptionsMaxWidth(30));
    return new CommandRunner(line).execute(args);
  }

  private int execute(String[] args) {
    command.setParameterExceptionHandler((e, arguments) -> refused(e));
    command.setExecutionExceptionHandler((e, line, result) -> failed(line, e));
    try {
      configPath(args)
          .ifPresent(
              path -> {
                config = new ConfigFile(path, command.getCommandSpec(), List.of(args));
                command.setDefaultValueProvider(config);
              });
      return command.execute(args);
    } catch (BerthException | Error e) {
      // picocli's handler sees no Error, and the JVM's would exit with 1, as if the program had.
      return failed(command, e);
    }
  }

  // Needed before the real parsing, because the file supplies defaults to it.
  private Optional<Path> configPath(String[] args) {
    if (!command.getCommandSpec().optionsMap().containsKey(ConfigFile.OPTION)) {
      return Optional.empty();
    }
    List<String> words = Arrays.asList(args);
    for (int i = words.size() - 1; i >= 0; i--) {
      String word = words.get(i);
      if (word.startsWith(ConfigFile.OPTION + "=")) {
        return Optional.of(Path.of(word.substring(ConfigFile.OPTION.length() + 1)));
      }
      if (word.equals(ConfigFile.OPTION) && i + 1 < words.size()) {
        return Optional.of(Path.of(words.get(i + 1)));
      }
    }
    return Optional.empty();
  }

  private int refused(ParameterException e) {
    CommandLine line = e.getCommandLine();
    String place = "";
    if (config != null && e.getArgSpec() != null) {
      place = config.place(e.getArgSpec(), e.getValue()).map(p -> p + ": ").orElse("");
    }
    String name = line.getCommandSpec().qualifiedName();
    PrintWriter err = line.getErr();
    err.println(name + ": " + PlainText.clean(place + message(e)));
    err.println("Try '" + name + " --help'.");
    return ExitCode.BERTH_FAILED;
  }

  private int failed(CommandLine line, Throwable e) {
    String name = line.getCommandSpec().root().name();
    PrintWriter err = line.getErr();
    if (stackTraceAsked()) {
      PlainText.escape(e).printStackTrace(err);
    } else if (e instanceof BerthException) {
      // It may be the message of a server, which may be anybody's.
      err.println(name + ": " + PlainText.clean(String.valueOf(e.getMessage())));
    } else if (e instanceof IOException || e instanceof UncheckedIOException) {
      // A full disk, or a folder that is not writable: nothing that a stack trace explains.
      IOException why = (IOException) (e instanceof IOException ? e : e.getCause());
      err.println(name + ": " + PlainText.clean(FileFailure.words(why)));
    } else {
      err.println(
          name
              + ": unexpected: "
              + PlainText.clean(e.toString())
              + " ("
              + STACK_TRACE
              + " shows where)");
    }
    err.flush();
    return ExitCode.BERTH_FAILED;
  }

  // Asks the parser, not the words: after the name of a program they belong to that program.
  private boolean stackTraceAsked() {
    CommandLine line = command;
    while (line != null && line.getParseResult() != null) {
      CommandLine.ParseResult parsed = line.getParseResult();
      if (parsed.hasMatchedOption(STACK_TRACE)) {
        return true;
      }
      line = parsed.hasSubcommand() ? parsed.subcommand().commandSpec().commandLine() : null;
    }
    return false;
  }

  private static String message(ParameterException e) {
    if (e instanceof MutuallyExclusiveArgsException) {
      return firstLine(e.getMessage())
          .replaceFirst("^Error: ", "")
          .replaceFirst(" \\(specify only one\\)$", "");
    }
    Matcher pair = NO_PAIR.matcher(firstLine(e.getMessage()));
    if (pair.matches()) {
      return "Invalid value for option '"
          + pair.group("option")
          + "': '"
          + pair.group("value")
          + "' is not "
          + pair.group("form");
    }
    if (!(e instanceof UnmatchedArgumentException unmatched)
        || unmatched.getUnmatched().isEmpty()
        || unmatched.isUnknownOption()) {
      return firstLine(e.getMessage());
    }
    String word = unmatched.getUnmatched().get(0);
    if (e.getCommandLine().getSubcommands().isEmpty()) {
      return "unexpected argument '" + word + "'";
    }
    // picocli always finds something that it calls similar.
    Optional<String> similar =
        unmatched.getSuggestions().stream().filter(known -> isMisspelled(word, known)).findFirst();
    return "unknown command '"
        + word
        + "'"
        + similar.map(known -> "; did you mean '" + known + "'?").orElse("");
  }

  /** Whether two letters at most are wrong, missing or too many. */
  private static boolean isMisspelled(String word, String known) {
    int[] row = IntStream.rangeClosed(0, known.length()).toArray();
    for (int i = 1; i <= word.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= known.length(); j++) {
        int above = row[j];
        int replaced = diagonal + (word.charAt(i - 1) == known.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, 1 + Math.min(above, row[j - 1]));
        diagonal = above;
      }
    }
    return row[known.length()] <= MOST_WRONG_LETTERS;
  }

  private static String firstLine(String message) {
    return message.lines().findFirst().orElse(message);
  }
}
