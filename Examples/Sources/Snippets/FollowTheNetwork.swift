// The examples of the article FollowTheNetwork: it contains the code between the marks.

// snippet: imports
import ConnectivityMonitor
// end

private func show(_ text: String) {}
private func reconnect() async {}
private func download(_ quality: String) async {}

func followTheNetworkFollow() async {
  // snippet: follow
  for await path in PathMonitor() {
    if path.isOnline {
      show("online by \(path.interface ?? "some link")")
    } else {
      show("offline: \(path.unsatisfiedReason?.rawValue ?? "for a moment")")
    }
  }
  // end
}

func followTheNetworkOnce() async {
  // snippet: once
  let path = await PathMonitor().currentPath
  await download(path.isConstrained || path.isExpensive != false ? "small" : "large")
  // end
}

func followTheNetworkWait() async {
  // snippet: wait
  for await path in PathMonitor() where path.isOnline { break }
  guard !Task.isCancelled else { return }
  await reconnect()
  // end
}

func followTheNetworkDestination() async {
  // snippet: destination
  guard let server = IPAddress("192.0.2.10") else { return }
  for await path in PathMonitor(destination: server) {
    if path.usesMedium(.cellular) { show("by the mobile network") }
    if path.gateways.isEmpty, path.status == .satisfied { show("on this link") }
  }
  // end
}

func followTheNetworkSome() async {
  // snippet: some
  for await path in PathMonitor(access: .requiring([.wifi, .wired])) {
    show(path.refusal.map { "there is a network, but \($0)" } ?? path.description)
  }
  // end
}
