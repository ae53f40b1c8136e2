package berth.host.lock;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuSample;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Which GPUs a request wants.
 *
 * @param count how many; {@link #ALL} for all healthy ones that match. Ignored with {@code ids}
 * @param ids exactly these, by UUID or index; empty for any
 * @param minFreeMemory bytes that each must have free; 0 for any
 * @param model part of the name that each must have; empty for any
 */
public record GpuWish(int count, List<String> ids, long minFreeMemory, String model) {
  public static final int ALL = -1;
  // More than any machine has.
  private static final int MOST_IDS = 256;

  public GpuWish {
    if (ids.size() > MOST_IDS) {
      throw invalid(ids.size() + " GPUs given, " + MOST_IDS + " are allowed");
    }
    ids = List.copyOf(ids);
    if (ids.isEmpty() && count != ALL && count < 1) {
      throw invalid(count + " GPUs asked; ask for 1 or more, or " + ALL + " for all");
    }
    Set<String> seen = new HashSet<>();
    for (String id : ids) {
      if (!seen.add(id)) {
        throw invalid("GPU " + id + " is asked for twice");
      }
    }
  }

  public static GpuWish of(int count) {
    return new GpuWish(count, List.of(), 0, "");
  }

  /** Whether what the driver says is known: only then can something be impossible. */
  public static boolean readable(GpuSample sample) {
    return sample.problem().isEmpty() && sample.taken().isPresent();
  }

  /**
   * Refuses what this machine can never give, whatever is free. While the driver cannot be read,
   * nothing is known to be impossible, and neither is it of a GPU that does not say who it is.
   *
   * @return false if nothing is known
   * @throws BerthException if it can never be given
   */
  public boolean checkAgainst(GpuSample sample) {
    if (!readable(sample)) {
      return false;
    }
    int has = sample.gpus().size();
    String server = "this server has " + has;
    if (ids.isEmpty() && (count > has || has == 0)) {
      throw invalid((count == ALL ? "all" : count) + " GPUs asked, " + server);
    }
    Set<Integer> indices = new HashSet<>();
    for (String id : ids) {
      Optional<Gpu> gpu = sample.gpus().stream().filter(known -> is(known, id)).findFirst();
      if (gpu.isEmpty() && sample.gpus().stream().noneMatch(other -> couldBe(other, id))) {
        throw invalid("no GPU " + id + " here: " + server);
      }
      if (gpu.isPresent() && !indices.add(gpu.get().index())) {
        throw invalid("GPU " + id + " is asked for twice");
      }
    }
    List<Gpu> possible = sample.gpus().stream().filter(this::couldMatch).toList();
    int needed = ids.isEmpty() ? Math.max(count, 1) : ids.size();
    if (possible.size() < needed) {
      throw invalid(
          phrase(needed) + " asked, this server has " + possible.size() + " such of " + has);
    }
    return true;
  }

  /** The GPUs that may be taken now, leaving their locks aside, by ascending index. */
  public List<Gpu> usable(GpuSample sample) {
    return sample.gpus().stream()
        .filter(this::matches)
        .filter(gpu -> gpu.health().healthy())
        .toList();
  }

  /**
   * Why it could not be had at present even if nobody held any GPU, as a sentence about this
   * server. That is the server's trouble, and may be over at any time.
   */
  public Optional<String> trouble(GpuSample sample) {
    if (!readable(sample)) {
      return Optional.of(unreadable(sample));
    }
    int usable = usable(sample).size();
    if (usable > 0 && usable >= needed(usable)) {
      return Optional.empty();
    }
    String sick =
        sample.gpus().stream()
            .filter(this::couldMatch)
            .filter(gpu -> !gpu.health().healthy())
            .map(gpu -> "GPU " + gpu.index() + " is " + gpu.health())
            .collect(Collectors.joining("; "));
    // Lost altogether, or not what they were: the server showed others when it was accepted.
    String few =
        (ids.isEmpty() && count == ALL ? "all GPUs" : phrase(needed(usable)))
            + " asked, this server shows "
            + sample.gpus().size()
            + " now";
    int possible = (int) sample.gpus().stream().filter(this::couldMatch).count();
    return Optional.of(
        sick.isEmpty() ? few : possible < Math.max(1, needed(possible)) ? few + "; " + sick : sick);
  }

  /** What to say of {@link #trouble} to those who do not wait. */
  public BerthException refusal(GpuSample sample) {
    if (!readable(sample)) {
      return new BerthException(Reason.UNAVAILABLE, unreadable(sample));
    }
    int usable = usable(sample).size();
    return new BerthException(
        Reason.EXHAUSTED,
        phrase(needed(usable)) + " asked, " + usable + " usable; " + trouble(sample).orElse(""));
  }

  private static String unreadable(GpuSample sample) {
    return "the GPUs of this server cannot be read: "
        + sample.problem().orElse("the driver has not answered yet");
  }

  /** Whether a GPU has as much memory free as asked. */
  public boolean hasRoom(Gpu gpu) {
    return minFreeMemory == 0
        || gpu.memory().map(memory -> memory.free() >= minFreeMemory).orElse(false);
  }

  /** How many GPUs are wanted out of {@code usable} ones. */
  public int needed(int usable) {
    return !ids.isEmpty() ? ids.size() : count == ALL ? usable : count;
  }

  boolean isForOne() {
    return ids.isEmpty() ? count == 1 : ids.size() == 1;
  }

  /** As people say it: {@code 2 GPUs of model 'A100'}. */
  public String phrase(int number) {
    StringBuilder text = new StringBuilder(number + (number == 1 ? " GPU" : " GPUs"));
    if (!ids.isEmpty()) {
      text.append(" (").append(String.join(", ", ids)).append(')');
    }
    if (!model.isEmpty()) {
      text.append(" of model '").append(model).append('\'');
    }
    if (minFreeMemory > 0) {
      text.append(" with ").append(minFreeMemory >> 20).append(" MiB free");
    }
    return text.toString();
  }

  private boolean matches(Gpu gpu) {
    return couldMatch(gpu)
        && (ids.isEmpty() || ids.stream().anyMatch(id -> is(gpu, id)))
        && (model.isEmpty() || gpu.name().isPresent());
  }

  // What is lost may not say its name; once it is back, it may well be what was asked for.
  private boolean couldMatch(Gpu gpu) {
    return (ids.isEmpty() || ids.stream().anyMatch(id -> couldBe(gpu, id)))
        && (model.isEmpty() || gpu.name().map(name -> contains(name, model)).orElse(true))
        && (minFreeMemory == 0
            || gpu.memory().map(memory -> memory.total() >= minFreeMemory).orElse(true));
  }

  private static boolean couldBe(Gpu gpu, String id) {
    return is(gpu, id) || gpu.uuid().isEmpty() && !isIndex(id);
  }

  private static boolean isIndex(String id) {
    return !id.isEmpty() && id.chars().allMatch(Character::isDigit);
  }

  private static boolean contains(String name, String part) {
    return name.toLowerCase(Locale.ROOT).contains(part.toLowerCase(Locale.ROOT));
  }

  private static boolean is(Gpu gpu, String id) {
    return id.equals(gpu.uuid()) || id.equals(Integer.toString(gpu.index()));
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
