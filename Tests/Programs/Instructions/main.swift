// instructions N: classifies both default paths and compares them with the published ones, N times.
// It is a program of its own so that its instructions can be counted.
import Connectivity
import ConnectivityRules

let iterations = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1

func facts(_ destination: String, _ gateway: String, _ source: String) -> PathFacts? {
  guard let destination = IPAddress(destination), let source = IPAddress(source) else { return nil }
  let link = Link(
    index: 3, name: "wlan0", flags: [.up, .lowerUp, .running], operationalState: .up, carrier: true)
  return PathFacts(
    destination: destination,
    answer: .route(Route(outLink: 3, gateway: IPAddress(gateway), source: source)),
    links: [LinkFacts(link, device: Device(type: "wlan", hasPhy80211: true, driver: "iwlwifi"))],
    source: Address(source, prefixLength: 64, link: 3))
}

guard let ipv4 = facts("17.0.0.1", "192.0.2.1", "192.0.2.7"),
  let ipv6 = facts("2620::1", "fe80::1", "2001:db8::7")
else { preconditionFailure("these are addresses") }

let classifier = PathClassifier(policy: LinkPolicy([.init(match: "wwan*", medium: .cellular)]))
var transitions = TransitionDetector()
var published = 0
for iteration in 0..<iterations {
  let observation = Observation(
    ipv4: CandidatePath(classifier.path(ipv4)), ipv6: CandidatePath(classifier.path(ipv6)))
  let change = transitions.update(
    to: observation, on: .events([.rule(.ipv4)]),
    time: WallTime(microseconds: Int64(iteration)))
  if change != nil { published += 1 }
}
print("published \(published) of \(iterations)")
