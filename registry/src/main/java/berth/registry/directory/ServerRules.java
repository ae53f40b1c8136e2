package berth.registry.directory;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.AwaitTurnRequest;
import berth.v1.GpuInfo;
import berth.v1.HeartbeatRequest;
import berth.v1.Owner;
import berth.v1.RegisterRequest;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import com.google.protobuf.Message;
import java.util.Map;
import java.util.regex.Pattern;

/** What servers may say of themselves, and others of servers. */
public final class ServerRules {
  private static final int MAX_BYTES = 64 << 10;
  private static final int MAX_INSTANCE = 100;
  private static final int MAX_ADDRESS = 300;
  private static final int MAX_GPUS = 256;
  private static final int MAX_LABELS = 64;
  private static final int MAX_LABEL_KEY = 63;
  private static final int MAX_LABEL_VALUE = 255;
  private static final int MAX_SERVERS_OF_A_TURN = 10_000;
  private static final int MAX_OWNER = 200;
  private static final int MAX_PURPOSE = 200;
  private static final int MAX_TEXT = 400;
  private static final int MAX_IMAGE = 500;
  private static final int MAX_DESCRIPTION = 2000;
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}");

  private ServerRules() {}

  /**
   * @throws BerthException INVALID if something is too long, or not what it should be
   */
  public static void check(RegisterRequest request) {
    checkSize(request);
    checkInstance(request.getInstance());
    checkInfo(request.getInfo());
    checkStatus(request.getStatus());
    check(
        request.getGeneration() >= 0,
        "unknown generation " + Long.toUnsignedString(request.getGeneration()));
  }

  /**
   * @throws BerthException INVALID as for a registration
   */
  public static void check(HeartbeatRequest request) {
    checkSize(request);
    checkInstance(request.getInstance());
    checkName(request.getName());
    checkStatus(request.getStatus());
    if (request.hasInfo()) {
      checkInfo(request.getInfo());
      check(
          request.getInfo().getName().equals(request.getName()),
          "a heartbeat of '" + request.getName() + "' cannot give it another name");
    }
  }

  /**
   * Checks what was stored of a server: what it said in one message and in another, so there is no
   * limit for both together.
   *
   * @throws BerthException INVALID if none of that name can have registered so
   */
  static void check(Server server, String name) {
    checkInstance(server.getInstance());
    checkInfo(server.getInfo());
    checkStatus(server.getStatus());
    check(
        server.getInfo().getName().equals(name),
        "the server at the place of '" + PlainText.clean(name) + "' has another name");
  }

  /**
   * @throws BerthException INVALID if it names no server, too many, or what is none, or says too
   *     much of itself
   */
  public static void check(AwaitTurnRequest request) {
    int servers = request.getServersCount();
    check(servers > 0, "a turn needs at least one server");
    check(
        servers <= MAX_SERVERS_OF_A_TURN,
        "a turn for " + servers + " servers, at most " + MAX_SERVERS_OF_A_TURN);
    request.getServersList().forEach(ServerRules::checkName);
    Owner owner = request.getOwner();
    PlainText.check("the owner", owner.getUser() + owner.getHost(), MAX_OWNER);
    PlainText.check("the purpose", request.getPurpose(), MAX_PURPOSE);
    check(
        request.getWaited().getSeconds() >= 0 && request.getWaited().getNanos() >= 0,
        "the time waited must not be negative");
  }

  private static void checkInfo(ServerInfo info) {
    checkName(info.getName());
    PlainText.check("the address", info.getAddress(), MAX_ADDRESS);
    Address address = Address.parse(info.getAddress(), 0);
    // One way to write it, or two could have the same; and nothing that would upset a terminal.
    check(
        address.port() > 0 && address.toString().equals(info.getAddress()),
        "the address '" + address + "' is not HOST:PORT");
    check(info.getGpusCount() <= MAX_GPUS, info.getGpusCount() + " GPUs, at most " + MAX_GPUS);
    check(
        info.getLabelsCount() <= MAX_LABELS,
        info.getLabelsCount() + " labels, at most " + MAX_LABELS);
    for (Map.Entry<String, String> label : info.getLabelsMap().entrySet()) {
      int key = label.getKey().length();
      check(
          key >= 1 && key <= MAX_LABEL_KEY && label.getValue().length() <= MAX_LABEL_VALUE,
          "the label '" + PlainText.clean(label.getKey()) + "' is empty or too long");
      PlainText.check("a label", label.getKey() + "=" + label.getValue(), MAX_TEXT);
    }
    PlainText.check("the version", info.getVersion(), MAX_TEXT);
    PlainText.check("the runtime", info.getRuntime(), MAX_TEXT);
    for (GpuInfo gpu : info.getGpusList()) {
      PlainText.check("the UUID of a GPU", gpu.getUuid(), MAX_TEXT);
      PlainText.check("the model of a GPU", gpu.getModel(), MAX_TEXT);
    }
    info.getServicesList().forEach(ServerRules::checkService);
  }

  private static void checkService(Service service) {
    PlainText.check("the name of a service", service.getName(), MAX_TEXT);
    PlainText.check("the image of a service", service.getImage(), MAX_IMAGE);
    PlainText.check("the description of a service", service.getDescription(), MAX_DESCRIPTION);
    service.getAliasesList().forEach(alias -> PlainText.check("an alias", alias, MAX_TEXT));
    service
        .getInterpreterList()
        .forEach(word -> PlainText.check("an interpreter", word, MAX_IMAGE));
  }

  static RegisterRequest cleaned(RegisterRequest request) {
    ServerStatus status = cleaned(request.getStatus());
    return status == request.getStatus() ? request : request.toBuilder().setStatus(status).build();
  }

  static HeartbeatRequest cleaned(HeartbeatRequest request) {
    ServerStatus status = cleaned(request.getStatus());
    return status == request.getStatus() ? request : request.toBuilder().setStatus(status).build();
  }

  /** A status whose sentences, which may quote failures of anything, can be shown. */
  private static ServerStatus cleaned(ServerStatus status) {
    if (PlainText.isPlain(status.getProblem())
        && status.getGpusList().stream().allMatch(gpu -> PlainText.isPlain(gpu.getReason()))) {
      return status;
    }
    ServerStatus.Builder cleaned = status.toBuilder();
    cleaned.setProblem(PlainText.clean(status.getProblem()));
    cleaned.getGpusBuilderList().forEach(gpu -> gpu.setReason(PlainText.clean(gpu.getReason())));
    return cleaned.build();
  }

  private static void checkStatus(ServerStatus status) {
    check(
        status.getGpusCount() <= MAX_GPUS,
        "the states of " + status.getGpusCount() + " GPUs, at most " + MAX_GPUS);
    status.getRunIdsList().forEach(run -> PlainText.check("the name of a run", run, MAX_TEXT));
  }

  private static void checkName(String name) {
    check(
        NAME.matcher(name).matches(),
        "invalid server name '"
            + PlainText.clean(name)
            + "': letters, digits, dots, dashes and underscores are allowed");
  }

  private static void checkInstance(String instance) {
    check(
        !instance.isEmpty() && instance.length() <= MAX_INSTANCE,
        "the instance must have 1 to " + MAX_INSTANCE + " characters");
    PlainText.check("the instance", instance, MAX_INSTANCE);
  }

  private static void checkSize(Message message) {
    int bytes = message.getSerializedSize();
    check(bytes <= MAX_BYTES, "a server of " + bytes + " bytes, at most " + MAX_BYTES);
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }
}
