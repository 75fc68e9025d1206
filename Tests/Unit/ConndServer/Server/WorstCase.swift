import Connectivity
import ConnectivityRules
import UnixTransport

@testable import ConndServer

/// Everything that connd keeps for clients, with its limits and costs (rule D4).
///
/// docs/limits.md has the table of objects. A new call, or a new field of a request, needs a row in
/// `calls` or `fields`.
struct WorstCase {
  /// A kind of object that connd keeps for clients.
  struct Object {
    var name: String
    /// How many one user may have, or `nil` if only the number of all is limited.
    var ofOneUser: Int?
    var inAll: Int
    /// The maximum cost of one, in bytes, rounded up.
    var cost: Int
    /// The kinds of `Tests/Oracles/storms/weigh` that measure the cost.
    var measures: [String] = []
    /// The attacks of `make adversary` that take as many objects as the limits allow.
    var attacks: [String] = []

    var total: Int { self.inAll * self.cost }
  }

  /// A method of a service. Each call is one stream. Other things that it keeps are objects.
  struct Call {
    var name: String
    /// The memory of the call itself, in bytes, rounded up.
    var cost = 6 << 10
    /// The objects that the call takes beside its stream.
    var takes: [String] = []
    var attacks = Self.all

    /// These attacks make each call with one request.
    static let all = ["all calls", "all calls, unread"]
  }

  /// The fate of a request's field with a size that a client chooses.
  enum Fate: Hashable {
    /// The field is counted as pending memory while its call runs.
    case counted
    /// connd makes only numbers of a fixed size from the field.
    case parsed
    /// The field is a message, and each of its fields has a row.
    case message
    /// An object keeps at most this many bytes of the field.
    case kept(by: String, bytes: Int)
    /// connd forgets the field after reading the request.
    case dropped
  }

  static let limits = Limits()

  /// The memory of connd without clients after a cold start: its history, and the part of its
  /// program that was read.
  static let base = 40 << 20
  /// The memory of the unit that must be left, for fragments of the heap and for surprises.
  static let margin = 64 << 20
  /// The memory of a change that a subscriber keeps after it has left the history.
  static let change = 2 << 10

  static let objects = [
    // The session, the data that the socket did not take, and the kernel's part. Large headers that
    // are not complete are pending bytes.
    Object(
      name: "connection", ofOneUser: limits.connectionsPerUser, inAll: limits.connections,
      cost: 76 << 10, measures: ["connections", "full-connections", "headers"],
      attacks: [
        "holds connections", "40 uids that hold", "two services that hold", "full connections",
        "halves of headers",
      ]),
    Object(
      name: "call", ofOneUser: limits.streamsPerUser, inAll: limits.streams,
      cost: (calls.map(\.cost).max() ?? 0) + CallMemory.free,
      measures: ["watches", "guards", "paths", "unread-answers", "long-requests"],
      attacks: ["follows paths", "halves of requests", "long requests"] + Call.all),
    // A query with the bytes of its request, which are counted once and kept twice.
    Object(
      name: "query", ofOneUser: limits.questionsPerUser, inAll: limits.questions, cost: 2 << 10,
      attacks: ["asks for 3,000 links", "1,800 uids that ask", "lists 2,048 connections"]),
    Object(
      name: "pending byte", ofOneUser: limits.pendingMemoryPerUser, inAll: limits.pendingMemory,
      cost: 1,
      attacks: ["unread registrations", "unread histories", "lists 2,048 connections"]),
    // The flow with its known path, and the path and the end that its client does not read.
    Object(
      name: "flow", ofOneUser: limits.flowsPerUser, inAll: limits.flows, cost: 3 << 10,
      measures: ["flows", "large-flows"], attacks: ["holds flows", "registers and removes"]),
    // An override is kept in memory, on the way to the file, as it is in the file, and in the
    // file's text.
    Object(
      name: "override", inAll: OverrideRequests.maxOverrides, cost: 4 << 10,
      attacks: ["sets costs"]),
    // The cost includes a thread.
    Object(
      name: "polkit query", ofOneUser: PolkitClient.maxQuestionsPerUser,
      inAll: 2 * PolkitClient.maxQuestions, cost: 128 << 10, attacks: ["asks polkit, which is mute"]
    ),
    // A user's attempts on one link.
    Object(
      name: "attempts", ofOneUser: LinkConditions.maxLinks,
      inAll: LinkConditions.maxLinks * LinkTrouble.maxUsers, cost: 1 << 10, attacks: Call.all),
  ]

  static let calls = [
    Call(name: "Connectivity.GetStatus"),
    Call(
      name: "Connectivity.Watch", cost: (2 << 10) + Store.maxBatch * change,
      attacks: ["200 watching people", "50 never read", "reads all history"]),
    Call(name: "Connectivity.GetPath", takes: ["query"]),
    Call(name: "Connectivity.ReportAttempt", takes: ["query", "attempts"]),
    Call(
      name: "Connectivity.WatchPath", cost: 22 << 10, takes: ["query"],
      attacks: ["follows paths"]),
    Call(
      name: "Connectivity.Guard", cost: 22 << 10, takes: ["pending byte", "flow"],
      attacks: ["unread registrations", "registers and removes", "holds flows"]),
    Call(
      name: "Costs.SetCost", takes: ["query", "override", "polkit query"],
      attacks: ["sets costs", "asks polkit, which is mute"]),
    Call(name: "Costs.ListNetworks", takes: ["query", "pending byte"]),
    Call(name: "Costs.ForgetNetwork", takes: ["query", "polkit query"]),
    Call(name: "Costs.SetAssist", takes: ["query", "override", "polkit query"]),
    Call(name: "Diagnostics.Explain", takes: ["query", "pending byte"]),
    Call(name: "Diagnostics.ListLinks", takes: ["query", "pending byte"]),
    Call(name: "Diagnostics.ListTransitions", takes: ["pending byte"]),
    Call(name: "Diagnostics.GetStatistics", takes: ["pending byte"]),
    Call(name: "Diagnostics.ListClients", takes: ["pending byte"]),
    Call(
      name: "Diagnostics.ListConnections", takes: ["query", "pending byte"],
      attacks: ["lists 2,048 connections"]),
    Call(name: "Diagnostics.Diagnose", takes: ["query", "pending byte"]),
    Call(name: "Diagnostics.GetConfiguration", takes: ["query", "pending byte"]),
    Call(name: "Health.Check"),
    Call(name: "Health.Watch", takes: ["pending byte"], attacks: ["long requests"]),
    Call(name: "ServerReflection.ServerReflectionInfo", takes: ["pending byte"]),
  ]

  private static let chain = PathReader.maxDepth * MemoryLayout<KernelPath.Link>.stride
  private static let address = MemoryLayout<IPAddress>.stride

  static let fields: [String: Fate] = [
    "WatchRequest.events": .parsed,
    "GetPathRequest.destination": .counted,
    "GetPathRequest.via": .counted,
    "ReportAttemptRequest.destination": .counted,
    "WatchPathRequest.destination": .counted,
    "WatchPathRequest.via": .counted,
    "GuardRequest.add": .message,
    "GuardRequest.remove": .message,
    "GuardRequest.heard": .message,
    "Flow.remote": .kept(by: "flow", bytes: address),
    "Flow.local": .kept(by: "flow", bytes: address),
    "Flow.interface": .kept(by: "flow", bytes: 4),
    "Flow.known_path": .message,
    "Path.interface": .dropped,
    // A name of at most 15 bytes is within its link.
    "Path.chain": .kept(by: "flow", bytes: chain),
    "ChainLink.name": .kept(by: "flow", bytes: 0),
    "Path.source": .kept(by: "flow", bytes: address),
    "Path.gateway": .kept(by: "flow", bytes: address),
    "Path.evidence": .message,
    "Evidence.value": .dropped,
    "Path.validation": .message,
    "Validation.portal_uri": .dropped,
    "SetCostRequest.link": .kept(by: "override", bytes: 127),
    "SetCostRequest.network": .kept(by: "override", bytes: 256),
    "SetCostRequest.duration": .parsed,
    "ListNetworksRequest.page_token": .counted,
    "ForgetNetworkRequest.network": .counted,
    "SetAssistRequest.duration": .parsed,
    "ExplainRequest.destination": .counted,
    "ExplainRequest.local": .counted,
    "ExplainRequest.interface": .counted,
    "ListLinksRequest.page_token": .counted,
    "ListTransitionsRequest.page_token": .counted,
    "ListClientsRequest.page_token": .counted,
    "ListConnectionsRequest.page_token": .counted,
    "DiagnoseRequest.hosts": .counted,
    "DiagnoseRequest.socket_inodes": .counted,
    "HealthCheckRequest.service": .counted,
    "ServerReflectionRequest.host": .counted,
    "ServerReflectionRequest.file_by_filename": .counted,
    "ServerReflectionRequest.file_containing_symbol": .counted,
    "ServerReflectionRequest.file_containing_extension": .message,
    "ServerReflectionRequest.all_extension_numbers_of_type": .counted,
    "ServerReflectionRequest.list_services": .counted,
    "ExtensionRequest.containing_type": .counted,
  ]

  /// The memory that connd needs if clients take all that the default limits allow.
  static var total: Int { Self.base + Self.objects.map(\.total).reduce(0, +) }

  /// The table of objects in Markdown.
  static var table: String {
    let rows = Self.objects.map { object in
      let total = (Double(object.total) / Double(1 << 20)).rounded(.up)
      return
        "| \(object.name) | \(object.ofOneUser.map { "\($0)" } ?? "") | \(object.inAll) | \(object.cost) | \(Int(total)) |"
    }
    let head = [
      "| Object | One user | All users | Bytes each | MiB |", "|---|---|---|---|---|",
      "| connd without clients | | 1 | \(Self.base) | \(Self.base >> 20) |",
    ]
    let sum = "| sum | | | | \((Self.total + (1 << 20) - 1) >> 20) |"
    return (head + rows + [sum]).joined(separator: "\n")
  }
}
