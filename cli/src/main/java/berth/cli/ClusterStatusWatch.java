package berth.cli;

import berth.client.call.FollowedCluster;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.v1.ClusterStatus;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * {@code berth cluster status --watch}: shows a cluster whenever something of it changes, until it
 * has ended. One thread hears of it, another one draws.
 */
final class ClusterStatusWatch implements FollowedCluster.Watcher {
  private sealed interface News {}

  private record Changed(ClusterStatus status) implements News {}

  private record Lost(BerthException why) implements News {}

  /** Nothing follows, because it has ended or, with a reason, because that is all we shall know. */
  private record Over(RuntimeException why) implements News {}

  private final FoundCluster found;

  // Bounded, so that a terminal that is stopped slows the stream down to the server, which then
  // skips states.
  private final LinkedBlockingQueue<News> news = new LinkedBlockingQueue<>(16);

  ClusterStatusWatch(FoundCluster found) {
    this.found = found;
  }

  /** Prints every state as a line of JSON. */
  static void printJson(FoundCluster found) {
    FollowedCluster.Watcher printer =
        new FollowedCluster.Watcher() {
          @Override
          public void changed(ClusterStatus status) {
            Terminal.line(JsonOutput.line(status));
            Screen.endIfNobodyReads();
          }

          @Override
          public void lost(BerthException why) {
            tellLost(why);
          }
        };
    new FollowedCluster(found.client(), printer).follow(found.id());
  }

  /** Shows it in place on a terminal, else one state below the other. */
  static void show(FoundCluster found, Terminal terminal) throws InterruptedException {
    ClusterStatusWatch watch = new ClusterStatusWatch(found);
    Thread thread = new Thread(watch::follow, "watch-" + found.id());
    thread.setDaemon(true);
    thread.start();
    watch.draw(new Screen(terminal));
  }

  private void draw(Screen screen) throws InterruptedException {
    ClusterStatus status = ClusterStatus.getDefaultInstance();
    String trouble = "";
    while (true) {
      // The times that are shown go on though nothing changes.
      News next = screen.redraws() ? news.poll(1, TimeUnit.SECONDS) : news.take();
      boolean changed = false;
      if (next instanceof Over over) {
        screen.end();
        if (over.why != null) {
          throw over.why;
        }
        return;
      } else if (next instanceof Changed newest) {
        changed = !newest.status.equals(status);
        status = newest.status;
        trouble = "";
      } else if (next instanceof Lost lost && screen.redraws()) {
        trouble = "\n" + PlainText.clean(lost.why.getMessage()) + "; trying again\n";
      } else if (next instanceof Lost lost) {
        tellLost(lost.why);
      }
      if (changed || screen.redraws()) {
        screen.show(new ClusterStatusTable(TimeText.here()).render(status) + trouble);
      }
    }
  }

  private void follow() {
    try {
      new FollowedCluster(found.client(), this).follow(found.id());
      put(new Over(null));
    } catch (RuntimeException e) {
      put(new Over(e));
    }
  }

  @Override
  public void changed(ClusterStatus status) {
    put(new Changed(status));
  }

  @Override
  public void lost(BerthException why) {
    put(new Lost(why));
  }

  private static void tellLost(BerthException why) {
    Terminal.note(why.getMessage() + "; trying again");
  }

  private void put(News item) {
    try {
      news.put(item);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
