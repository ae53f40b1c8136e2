package berth.client.call;

import berth.rpc.BerthException;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.Optional;

/**
 * Where the servers come from that a request may go to. Any thread may call; every failure is a
 * {@link BerthException}.
 */
public sealed interface ServerSource extends AutoCloseable permits RegistryClient, GivenServer {
  /** Returns the servers that pass a filter, by name. */
  List<Server> listServers(ServerFilter filter);

  /** Returns who could take a request; that nobody can is no failure. */
  FindGpusResponse findGpus(FindGpusRequest request);

  /** The registry, if the servers come from one: some things only a registry can do. */
  Optional<RegistryClient> registry();

  @Override
  void close();
}
