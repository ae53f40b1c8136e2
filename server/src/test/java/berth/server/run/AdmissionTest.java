package berth.server.run;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class AdmissionTest {
  private final Admission admission = new Admission("gpu01", new Admission.Limits(3, 2, 100));

  @Test
  void nobodyHasMoreThanAShareAndAllTogetherNoMoreThanThereIs() {
    admission.admit("ann@lap", 10);
    Runnable second = admission.admit("ann@lap", 10);
    assertThatThrownBy(() -> admission.admit("ann@lap", 10))
        .hasMessage(
            "2 runs of ann@lap are waiting or running on gpu01, more than allowed"
                + " (--max-runs-per-owner); try again later");
    admission.admit("bob@pc", 10);
    assertThatThrownBy(() -> admission.admit("eve@pc", 10))
        .hasMessage(
            "3 runs are waiting or running on gpu01, more than allowed (--max-runs); try again"
                + " later");
    second.run();
    assertThatThrownBy(() -> admission.admit("ann@lap", 90))
        .hasMessage(
            "code and files of the runs that wait or run on gpu01 take 20 bytes, and this run"
                + " brings 90, more than allowed (--max-request-bytes); try again later");
    admission.admit("ann@lap", 80);
  }
}
