package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.ThisUser;
import berth.v1.ListReservationsResponse;
import berth.v1.ListRunsResponse;
import berth.v1.LockHolder;
import berth.v1.Owner;
import berth.v1.Reservation;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.UnreservedUse;
import berth.v1.Waiting;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;
import picocli.CommandLine.MutuallyExclusiveArgsException;

/** Whose entries lists show. */
class OwnerOptionTest {
  private static final Owner ME = ThisUser.owner();
  private static final Owner ME_ELSEWHERE = owner(ME.getUser(), "elsewhere.invalid");
  private static final Owner ANN = owner("ann", "laptop");

  private static final ListRunsResponse RUNS =
      ListRunsResponse.newBuilder()
          .addRuns(run("run-1", ME))
          .addRuns(run("run-2", ANN))
          .addRuns(run("run-3", ME_ELSEWHERE))
          .addRuns(run("run-4", owner("ann", "desk")))
          .setTotalCount(40)
          .build();

  @Test
  void mineIsWhatThisUserSentFromThisMachine() {
    ListRunsResponse mine = this.<RunsCommand>parse("runs", "--mine").wanted(RUNS);

    assertThat(mine.getRunsList()).extracting(Run::getRunId).containsExactly("run-1");
    // Nothing of others is said to be hidden.
    assertThat(mine.getTotalCount()).isEqualTo(1);
  }

  @ParameterizedTest
  @CsvSource({"ann, run-2 run-4", "ann@desk, run-4", "an, ''", "laptop, ''"})
  void aUserIsNamedWithOrWithoutTheMachine(String user, String ids) {
    ListRunsResponse wanted = this.<RunsCommand>parse("runs", "--user", user).wanted(RUNS);

    assertThat(String.join(" ", wanted.getRunsList().stream().map(Run::getRunId).toList()))
        .isEqualTo(ids);
  }

  @Test
  void everythingIsShownUnlessAsked() {
    assertThat(this.<RunsCommand>parse("runs").wanted(RUNS)).isEqualTo(RUNS);
  }

  @Test
  void reservationsAndWaitingRequestsAreFilteredAndWhatHasNoOwnerIsLeftOut() {
    ListReservationsResponse all =
        ListReservationsResponse.newBuilder()
            .setServer("gpu01")
            .addReservations(Reservation.newBuilder().setReservationId("r1").setOwner(ANN))
            .addReservations(Reservation.newBuilder().setReservationId("r2").setOwner(ME))
            .addWaiting(Waiting.newBuilder().setOwner(ANN).setPurpose("a"))
            .addWaiting(Waiting.newBuilder().setOwner(ME).setPurpose("b"))
            .addLockedByOthers(LockHolder.newBuilder().setIndex(1))
            .addUnreservedUse(UnreservedUse.newBuilder().setIndex(2))
            .build();

    assertThat(this.<ReservationsCommand>parse("reservations").wanted(all)).isEqualTo(all);
    assertThat(this.<ReservationsCommand>parse("reservations", "--user", "ann").wanted(all))
        .isEqualTo(
            ListReservationsResponse.newBuilder()
                .setServer("gpu01")
                .addReservations(all.getReservations(0))
                .addWaiting(all.getWaiting(0))
                .build());
  }

  @ParameterizedTest
  @ValueSource(strings = {"runs", "reservations", "clusters"})
  void mineAndAUserExcludeEachOther(String command) {
    assertThatThrownBy(() -> parse(command, "--mine", "--user", "ann"))
        .isInstanceOf(MutuallyExclusiveArgsException.class);
  }

  @Test
  void aUserWithoutANameIsRefused() {
    assertThatThrownBy(() -> parse("runs", "--user", ""))
        .hasMessage("Invalid value for option '--user': the name must not be empty");
  }

  private <T> T parse(String... words) {
    CommandLine berth = new CommandLine(new BerthCommand());
    berth.parseArgs(words);
    return berth.getSubcommands().get(words[0]).getCommand();
  }

  private static Owner owner(String user, String host) {
    return Owner.newBuilder().setUser(user).setHost(host).build();
  }

  private static Run run(String id, Owner owner) {
    return Run.newBuilder()
        .setRunId(id)
        .setRequest(RunCodeRequest.newBuilder().setOwner(owner))
        .build();
  }
}
