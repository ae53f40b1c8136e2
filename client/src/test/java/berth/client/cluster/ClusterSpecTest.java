package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Address;
import com.google.gson.JsonParser;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ClusterSpecTest {
  private final Map<TaskName, Address> addresses = new LinkedHashMap<>();

  private ClusterSpecTest with(String type, int index, String address) {
    addresses.put(new TaskName(type, index), Address.parse(address, 0));
    return this;
  }

  private ClusterSpec spec() {
    return new ClusterSpec(addresses);
  }

  private ClusterSpec tfJob(String chief) {
    return with(chief, 0, "distributed-mnist-chief-5oz2-0:2222")
        .with("ps", 0, "distributed-mnist-ps-5oz2-0:2222")
        .with("worker", 0, "distributed-mnist-worker-5oz2-0:2222")
        .with("worker", 1, "distributed-mnist-worker-5oz2-1:2222")
        .spec();
  }

  /** Word for word what TFJob's documentation shows for worker 1. */
  @Test
  void tellsWorkerOneWhatTfJobToldIt() {
    assertThat(JsonParser.parseString(tfJob("master").tfConfig(new TaskName("worker", 1))))
        .isEqualTo(
            JsonParser.parseString(
                """
                {
                   "cluster":{
                      "master":[
                         "distributed-mnist-chief-5oz2-0:2222"
                      ],
                      "ps":[
                         "distributed-mnist-ps-5oz2-0:2222"
                      ],
                      "worker":[
                         "distributed-mnist-worker-5oz2-0:2222",
                         "distributed-mnist-worker-5oz2-1:2222"
                      ]
                   },
                   "task":{
                      "type":"worker",
                      "index":1
                   },
                   "environment":"cloud"
                }
                """));
  }

  @Test
  void theChiefHasItsNewNameUnlessTheOldOneIsAskedFor() {
    assertThat(tfJob("chief").tfConfig(new TaskName("chief", 0)))
        .isEqualTo(
            "{\"cluster\":{\"chief\":[\"distributed-mnist-chief-5oz2-0:2222\"],"
                + "\"ps\":[\"distributed-mnist-ps-5oz2-0:2222\"],"
                + "\"worker\":[\"distributed-mnist-worker-5oz2-0:2222\","
                + "\"distributed-mnist-worker-5oz2-1:2222\"]},"
                + "\"task\":{\"type\":\"chief\",\"index\":0},\"environment\":\"cloud\"}");
  }

  @Test
  void anEvaluatorIsInNobodysClusterButItsOwn() {
    ClusterSpec spec =
        with("chief", 0, "a:1")
            .with("worker", 0, "b:1")
            .with("evaluator", 0, "c:1")
            .with("tensorboard", 0, "d:1")
            .spec();

    assertThat(spec.tfConfig(new TaskName("worker", 0)))
        .startsWith("{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\"]},");
    assertThat(spec.tfConfig(new TaskName("evaluator", 0)))
        .startsWith(
            "{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\"],\"evaluator\":[\"c:1\"]},");
  }

  /** The file of the old grid, with its hosts and ports. */
  @Test
  void writesTheTableAndTheJsonOfTheGrid() {
    String[] workers = {"cippy18", "cippy19", "cippy20", "cippy21"};
    String[] parameterServers = {"cippy14", "cippy16", "cippy17", "cippy01"};
    for (int i = 0; i < 4; i++) {
      with("worker", i, workers[i] + ".cogsci.uni-osnabrueck.de:5001");
    }
    for (int i = 0; i < 4; i++) {
      with("ps", i, parameterServers[i] + ".cogsci.uni-osnabrueck.de:5002");
    }

    assertThat(spec().csv())
        .isEqualTo(
            """
            cippy18.cogsci.uni-osnabrueck.de,5001,worker
            cippy19.cogsci.uni-osnabrueck.de,5001,worker
            cippy20.cogsci.uni-osnabrueck.de,5001,worker
            cippy21.cogsci.uni-osnabrueck.de,5001,worker
            cippy14.cogsci.uni-osnabrueck.de,5002,ps
            cippy16.cogsci.uni-osnabrueck.de,5002,ps
            cippy17.cogsci.uni-osnabrueck.de,5002,ps
            cippy01.cogsci.uni-osnabrueck.de,5002,ps
            """);
    assertThat(JsonParser.parseString(spec().json()))
        .isEqualTo(
            JsonParser.parseString(
                """
                {"worker": [
                    "cippy18.cogsci.uni-osnabrueck.de:5001",
                    "cippy19.cogsci.uni-osnabrueck.de:5001",
                    "cippy20.cogsci.uni-osnabrueck.de:5001",
                    "cippy21.cogsci.uni-osnabrueck.de:5001"
                 ],
                 "ps": [
                    "cippy14.cogsci.uni-osnabrueck.de:5002",
                    "cippy16.cogsci.uni-osnabrueck.de:5002",
                    "cippy17.cogsci.uni-osnabrueck.de:5002",
                    "cippy01.cogsci.uni-osnabrueck.de:5002"
                 ]
                }
                """));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--ps_hosts={ps_hosts} | --ps_hosts=p:1,p:2",
        "{worker_hosts} | w:1,w:2",
        "--job_name={job_name} --task_index={task_index} | --job_name=worker --task_index=1",
        "--port {port} --host {host} | --port 2 --host w",
        "--chief={chief_hosts}. | --chief=.",
        "{scheduler_hosts} | s:1",
        "{nobody_hosts} {} {a b} {\"json\": 1} | {nobody_hosts} {} {a b} {\"json\": 1}",
        "$1 \\1 {job_name} | $1 \\1 worker",
      })
  void fillsInWhatClassicScriptsWantToKnow(String word, String filled) {
    ClusterSpec spec =
        with("ps", 0, "p:1")
            .with("ps", 1, "p:2")
            .with("worker", 0, "w:1")
            .with("worker", 1, "w:2")
            .with("scheduler", 0, "s:1")
            .spec();

    assertThat(spec.filled(word, new TaskName("worker", 1))).isEqualTo(filled);
  }

  @Test
  void ranksBeginWithTheChiefAndLeaveOutThoseWhoDoNotTrain() {
    ClusterSpec spec =
        with("worker", 0, "a:1")
            .with("worker", 1, "b:2")
            .with("chief", 0, "c:3")
            .with("ps", 0, "d:4")
            .with("evaluator", 0, "e:5")
            .spec();

    assertThat(spec.ranks(new TaskName("worker", 1)))
        .isEqualTo(Map.of("MASTER_ADDR", "c", "MASTER_PORT", "3", "RANK", "2", "WORLD_SIZE", "3"));
    assertThat(spec.ranks(new TaskName("ps", 0))).isEmpty();
  }
}
