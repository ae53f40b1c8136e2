package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** What is allowed, but probably not meant. */
class LikelyMistakesTest {
  private static ClusterRequest.Builder cluster(String... command) {
    return ClusterRequest.named("c").all(task -> task.image("a").command(command));
  }

  @Test
  void namesThePlaceholderThatWasProbablyMeant() {
    ClusterRequest request =
        cluster("go", "--ps={ps_host}", "{job_nam}", "{ps_host}")
            .task("worker", 2, w -> {})
            .task("ps", 1, ps -> {})
            .build();

    assertThat(LikelyMistakes.of(request))
        .containsExactly(
            "{ps_host} is not a placeholder and is passed as it is; did you mean {ps_hosts}?",
            "{job_nam} is not a placeholder and is passed as it is; did you mean {job_name}?");
  }

  @Test
  void namesTheTypeThatWasProbablyMeant() {
    ClusterRequest request =
        cluster("go", "{worker_hosts}")
            .task("wroker", 2, w -> {})
            .task("chief", 1, c -> {})
            .build();

    assertThat(LikelyMistakes.of(request))
        .containsExactly(
            "'wroker' is not a task type of TensorFlow and is not in TF_CONFIG; did you mean"
                + " 'worker'?");
  }

  @Test
  void typesAndBracesOfTheProgramsOwnAreNoMistakes() {
    ClusterRequest request =
        cluster("go", "{sampler_hosts}", "ckpt-{epoch}", "{}", "{chief_hosts}", "{task_index}")
            .task("sampler", 2, s -> {})
            .task("learner", 1, l -> {})
            .build();

    assertThat(LikelyMistakes.of(request)).isEmpty();
  }
}
