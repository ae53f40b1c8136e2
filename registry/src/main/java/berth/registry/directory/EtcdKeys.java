package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Server;
import com.google.protobuf.InvalidProtocolBufferException;
import io.etcd.jetcd.ByteSequence;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where in etcd what is: {@code PREFIX/servers/NAME} has the server, {@code
 * PREFIX/addresses/ADDRESS} the name of the server at that address. Both are bound to the lease of
 * the server, and change together. {@code PREFIX/epoch} tells this store from what may have been at
 * its place before, {@code PREFIX/compaction} when old revisions were forgotten last.
 *
 * @param prefix ends with a slash
 */
record EtcdKeys(String prefix) {
  private static final Logger log = LoggerFactory.getLogger(EtcdKeys.class);

  EtcdKeys {
    if (prefix.isBlank() || prefix.equals("/")) {
      throw new BerthException(Reason.INVALID, "the prefix in etcd must not be empty");
    }
    prefix = prefix.endsWith("/") ? prefix : prefix + "/";
  }

  ByteSequence epoch() {
    return bytes(prefix + "epoch");
  }

  ByteSequence compaction() {
    return bytes(prefix + "compaction");
  }

  /** What all servers begin with. */
  ByteSequence servers() {
    return bytes(prefix + "servers/");
  }

  ByteSequence server(String name) {
    return bytes(prefix + "servers/" + name);
  }

  ByteSequence address(String address) {
    return bytes(prefix + "addresses/" + address);
  }

  /** Which server a key belongs to. */
  String name(ByteSequence serverKey) {
    return text(serverKey.substring(servers().size()));
  }

  /**
   * The server that a value is; empty if it is none, or another than its key says. Anybody who may
   * write to etcd may have written it, and one bad value must not harm the other servers.
   */
  Optional<Server> server(ByteSequence key, ByteSequence value) {
    try {
      Server server = Server.parseFrom(value.getBytes());
      ServerRules.check(server, name(key));
      return Optional.of(server);
    } catch (InvalidProtocolBufferException | BerthException e) {
      log.warn("{} is no server: {}", text(key), e.getMessage());
      return Optional.empty();
    }
  }

  static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  static String text(ByteSequence bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }
}
