package berth.cli;

import berth.rpc.Address;
import berth.rpc.PlainText;
import berth.v1.Gpu;
import berth.v1.GpuHealthState;
import berth.v1.GpuProcess;
import berth.v1.GpuReport;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** Draws a report of GPUs for people, one line a GPU. */
final class GpuTable {
  private static final String ABSENT = "    -";
  private static final int BAR_CELLS = 10;
  private static final long MIB = 1 << 20;
  private static final long STALE_SECONDS = 10;

  private final boolean colours;
  private final boolean unicode;

  GpuTable(boolean colours) {
    this(colours, Terminal.showsUnicode());
  }

  GpuTable(boolean colours, boolean unicode) {
    this.colours = colours;
    this.unicode = unicode;
  }

  String render(Address server, GpuReport report) {
    StringBuilder text = new StringBuilder();
    text.append(heading(server, report)).append('\n');
    if (report.hasProblem()) {
      text.append("  ").append(paint(Colour.RED, clean(report.getProblem()))).append('\n');
    }
    int nameWidth = report.getGpusList().stream().mapToInt(g -> name(g).length()).max().orElse(0);
    int indexWidth = report.getGpusList().stream().mapToInt(g -> index(g).length()).max().orElse(0);
    for (Gpu gpu : report.getGpusList()) {
      text.append(row(gpu, indexWidth, nameWidth).stripTrailing()).append('\n');
    }
    return text.toString();
  }

  private String heading(Address server, GpuReport report) {
    List<String> facts = new ArrayList<>();
    if (report.getSimulated()) {
      facts.add(paint(Colour.MAGENTA, "simulated GPUs"));
    }
    if (report.hasDriverVersion()) {
      facts.add("driver " + clean(report.getDriverVersion()));
    }
    if (report.hasCudaVersion()) {
      facts.add("CUDA " + clean(report.getCudaVersion()));
    }
    if (report.getAge().getSeconds() >= STALE_SECONDS) {
      facts.add(paint(Colour.RED, "as of " + report.getAge().getSeconds() + " s ago"));
    }
    return paint(Colour.BOLD, clean(report.getServer()))
        + " at "
        + server
        + (facts.isEmpty() ? "" : ": " + String.join(", ", facts));
  }

  private String row(Gpu gpu, int indexWidth, int nameWidth) {
    String identity =
        String.format("%" + indexWidth + "s %-" + nameWidth + "s", index(gpu), name(gpu));
    String state = " | " + temperature(gpu) + " " + utilization(gpu) + " " + power(gpu);
    String row = paint(Colour.CYAN, identity) + state + " | " + memory(gpu) + " |";
    if (gpu.getHealth().getState() != GpuHealthState.GPU_HEALTH_STATE_HEALTHY) {
      return row + " " + paint(Colour.RED, health(gpu));
    }
    String forced = gpu.getHealth().getAdvice();
    return row
        + processes(gpu)
        + (forced.isEmpty() ? "" : " " + paint(Colour.YELLOW, "still needed: " + clean(forced)));
  }

  private static String index(Gpu gpu) {
    return "[" + gpu.getIndex() + "]";
  }

  private static String name(Gpu gpu) {
    return gpu.hasName() ? clean(gpu.getName()) : "?";
  }

  private String temperature(Gpu gpu) {
    String unit = unicode ? "°C" : " C";
    if (!gpu.hasTemperatureCelsius()) {
      return ABSENT;
    }
    int celsius = gpu.getTemperatureCelsius();
    return paint(
        celsius >= 80 ? Colour.RED : celsius >= 60 ? Colour.YELLOW : Colour.PLAIN,
        String.format("%3d%s", celsius, unit));
  }

  private String utilization(Gpu gpu) {
    if (!gpu.hasGpuUtilizationPercent()) {
      return ABSENT;
    }
    int percent = gpu.getGpuUtilizationPercent();
    return paint(percent > 0 ? Colour.GREEN : Colour.PLAIN, String.format("%3d %%", percent));
  }

  private static String power(Gpu gpu) {
    if (!gpu.hasPowerMilliwatts()) {
      return ABSENT + "       ";
    }
    String limit =
        gpu.hasPowerLimitMilliwatts()
            ? String.format("%3d", Math.round(gpu.getPowerLimitMilliwatts() / 1000.0))
            : "  -";
    return String.format("%4d / %s W", Math.round(gpu.getPowerMilliwatts() / 1000.0), limit);
  }

  private String memory(Gpu gpu) {
    if (!gpu.hasMemory() || gpu.getMemory().getTotalBytes() == 0) {
      return String.format("%" + (BAR_CELLS + 1 + 19) + "s", "");
    }
    long used = gpu.getMemory().getUsedBytes();
    long total = gpu.getMemory().getTotalBytes();
    int filled = (int) Math.round((double) used / total * BAR_CELLS);
    String full = unicode ? "█" : "#";
    String empty = unicode ? "░" : ".";
    Colour colour = used * 10 >= total * 9 ? Colour.RED : Colour.YELLOW;
    return paint(colour, full.repeat(filled))
        + empty.repeat(BAR_CELLS - filled)
        + String.format(" %6d / %6d MiB", used / MIB, total / MIB);
  }

  private String processes(Gpu gpu) {
    return gpu.getProcesses().getProcessesList().stream()
        .map(process -> " " + process(process))
        .collect(Collectors.joining());
  }

  private String process(GpuProcess process) {
    String who =
        (process.hasUser() ? paint(Colour.BOLD, clean(process.getUser())) + ":" : "")
            + (process.hasCommand() ? clean(process.getCommand()) + "/" : "")
            + process.getPid();
    return process.hasMemoryBytes() ? who + "(" + process.getMemoryBytes() / MIB + "M)" : who;
  }

  private static String health(Gpu gpu) {
    String state =
        gpu.getHealth().getState().name().replace("GPU_HEALTH_STATE_", "").toLowerCase(Locale.ROOT);
    String advice = clean(gpu.getHealth().getAdvice());
    return state
        + ": "
        + clean(gpu.getHealth().getReason())
        + (advice.isEmpty() ? "" : "; to bring it back: " + advice);
  }

  private static String clean(String text) {
    return PlainText.clean(text);
  }

  private enum Colour {
    PLAIN("0"),
    BOLD("1"),
    RED("31"),
    GREEN("32"),
    YELLOW("33"),
    MAGENTA("35"),
    CYAN("36");

    private final String code;

    Colour(String code) {
      this.code = code;
    }
  }

  private String paint(Colour colour, String text) {
    return !colours || colour == Colour.PLAIN || text.isEmpty()
        ? text
        : "\033[" + colour.code + "m" + text + "\033[0m";
  }
}
