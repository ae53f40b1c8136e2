package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Vitals;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has etcd forget old revisions: every change of a server is one, and etcd would keep them all
 * until it is full. Of all registries, the one does it that first finds that nobody has for a whole
 * interval, by a key of which the revision tells when that was: so the clocks of registries do not
 * matter, and what is newer than an interval stays.
 */
final class EtcdCompaction implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(EtcdCompaction.class);

  private final EtcdMembers members;
  private final EtcdKeys keys;
  private final Duration interval;
  private final Thread thread;
  // Of the thread alone: what was seen at the last look; -1 before the first.
  private long seen = -1;

  /**
   * @param interval how long revisions are kept at least, and twice that at most
   */
  EtcdCompaction(EtcdMembers members, EtcdKeys keys, Duration interval, Vitals vitals) {
    this.members = members;
    this.keys = keys;
    this.interval = interval;
    this.thread = vitals.start("etcd-compaction", this::look);
  }

  @Override
  public void close() {
    thread.interrupt();
  }

  private boolean look() throws InterruptedException {
    try {
      seen = compactAfter(seen);
    } catch (BerthException | EtcdException e) {
      if (Thread.currentThread().isInterrupted()) {
        return false;
      }
      // It is away, or another has been faster: there is time.
      log.debug("etcd was not compacted", e);
    }
    TimeUnit.NANOSECONDS.sleep(interval.toNanos());
    return true;
  }

  /** Returns the revision of the key now. */
  private long compactAfter(long before) {
    long now = revision();
    if (now != before) {
      return now;
    }
    Cmp unchanged = new Cmp(keys.compaction(), Cmp.Op.EQUAL, CmpTarget.modRevision(now));
    Op put = Op.put(keys.compaction(), EtcdKeys.bytes(Long.toString(now)), PutOption.DEFAULT);
    TxnResponse response =
        members.call(client -> client.getKVClient().txn().If(unchanged).Then(put).commit());
    if (!response.isSucceeded()) {
      return revision();
    }
    if (now > 0) {
      members.call(client -> client.getKVClient().compact(now));
      log.info("compacted etcd up to revision {}", now);
    }
    return response.getHeader().getRevision();
  }

  private long revision() {
    return members.call(client -> client.getKVClient().get(keys.compaction())).getKvs().stream()
        .findFirst()
        .map(KeyValue::getModRevision)
        .orElse(0L);
  }
}
