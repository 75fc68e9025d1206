// The example of the README: it contains the code between the marks.

import ConnectivityClient
import GRPCCore

func readMe() throws {
  // snippet: client
  let client = GRPCClient(
    transport: try .networkAware(
      target: .dns(host: "example.com", port: 443), transportSecurity: .tls))
  // end
  _ = client
}
