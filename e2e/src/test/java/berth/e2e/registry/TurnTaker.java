package berth.e2e.registry;

import berth.client.call.RegistryClient;
import berth.client.call.Turn;
import berth.rpc.Address;
import berth.v1.AwaitTurnRequest;
import java.util.List;

/** Waits for a turn and keeps it until it is killed. Says "ahead" for each change, then "turn". */
final class TurnTaker {
  private TurnTaker() {}

  /**
   * @param args the registry, and a server
   */
  public static void main(String[] args) throws InterruptedException {
    RegistryClient client = RegistryClient.of(List.of(Address.parse(args[0], 0)));
    AwaitTurnRequest request = AwaitTurnRequest.newBuilder().addServers(args[1]).build();
    try (Turn turn = client.awaitTurn(request, ahead -> System.out.println("ahead"))) {
      System.out.println(turn.held() ? "turn" : "lost");
      Thread.currentThread().join();
    }
  }
}
