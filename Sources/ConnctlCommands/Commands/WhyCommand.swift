import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol

struct WhyCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "why", "Say which part fails if programs get no answers.",
    usage: "connctl why [<options>] [<host>|<program>|<pid>]",
    discussion: """
      Compares the machine's sockets twice within a second, and says which part fails, then the \
      evidence: this machine does not let packets out, packets are lost on the way, nothing off this \
      network answers, names are not resolved, only one server or one user is affected, or large \
      packets are lost. Sends nothing to the network, unless --ask is given.

      Judges your own connections, or those of all users for root. A host, a program's name or a \
      process number limits the question to its connections; the others serve as comparison. If a \
      program of that name is running, the argument is a program.

      --ask also sends one datagram to a closed port of the router. If the router refuses it, the \
      router works. If no answer comes, nothing follows. If the answer would be unknown, --ask also \
      asks the peers of your idle connections, by one keepalive probe each.
      """,
    examples: ["connctl why", "connctl why example.com:443", "connctl why firefox --ask"],
    exit: "0 if nothing is wrong, 1 otherwise, also if the answer is unknown.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: ArgumentHelp("A host, a program or a process.", valueName: "host"))
  var subject: String?

  @Flag(help: "Ask the router, and the peers of idle connections.")
  var ask = false

  func run(through connector: Connector) async throws {
    var remark: String?
    var request: Connectivity_V1_DiagnoseRequest? = Connectivity_V1_DiagnoseRequest()
    if let subject {
      do {
        request = try DiagnosisQuestion(subject).request
      } catch let error as ResolutionError {
        // The reason may be the one that the user looks for.
        remark =
          "“\(subject)” is not a running program, and \(error); judging all connections (“connctl connections” lists programs and hosts)"
      }
    }
    if let remark { self.console.remark(remark) }
    let (diagnosis, status) = try await self.answer(through: connector) { [request] connd in
      var diagnosis =
        if let request {
          try await connd.call(ConndServices.Diagnostics.Diagnose.self, request)
        } else {
          Connectivity_V1_Diagnosis.withoutSockets
        }
      if self.ask, let request, DiagnosisVerdict(diagnosis.verdict) == .unknown {
        diagnosis = try await self.askPeers(request, connd) ?? diagnosis
      }
      let status = try await connd.call(ConndServices.Connectivity.GetStatus.self)
      return (diagnosis, status)
    }
    let router = self.ask ? try await self.askRouter(diagnosis, status) : nil
    try self.show(
      try .diagnosis(diagnosis, router),
      try self.console.style.diagnosis(
        diagnosis, of: remark == nil ? self.subject : nil, router))
    guard DiagnosisVerdict(diagnosis.verdict) == .nothingWrong else {
      throw ExitStatus.doesNotHold
    }
  }

  private func askRouter(
    _ diagnosis: Connectivity_V1_Diagnosis, _ status: Connectivity_V1_Status
  ) async throws -> RouterProbe.Answer? {
    let namespace = status.networkNamespace
    guard [0, ProcessNamespace.own ?? namespace].contains(namespace) else {
      self.console.remark("--ask: connd watches another network namespace than connctl")
      return nil
    }
    // The path of connections within the network has no router.
    let paths = [try KernelPath(diagnosis.path), try ConnectivitySnapshot(status).status.path]
    guard let path = paths.first(where: { $0.gateway != nil }), let gateway = path.gateway else {
      self.console.remark("--ask: the path has no router")
      return nil
    }
    return await RouterProbe.ask(gateway, on: path.chain.first?.index ?? 0)
  }
}

/// The connections that the user asks about.
struct DiagnosisQuestion {
  /// The request, or `nil` if the processes have no socket.
  let request: Connectivity_V1_DiagnoseRequest?

  /// The limits of connd.
  private static let (maxHosts, maxSockets) = (64, 1024)

  /// - Throws: ``ResolutionError`` if the text is neither a process nor a program nor a host.
  init(_ text: String, in proc: String = "/proc") throws {
    if let processes = try Self.processes(text, in: proc) {
      guard let sockets = SocketOwners.sockets(of: processes, in: proc) else {
        throw ValidationError("the sockets of “\(text)” belong to another user: ask as root")
      }
      var request = Connectivity_V1_DiagnoseRequest()
      request.socketInodes = Array(sockets.sorted().prefix(Self.maxSockets))
      self.request = sockets.isEmpty ? nil : request
      return
    }
    let endpoint = try Endpoint(text)
    var request = Connectivity_V1_DiagnoseRequest()
    if !endpoint.host.isEmpty {
      request.hosts = try Resolver.hosts(of: endpoint.host).prefix(Self.maxHosts)
        .map(\.address.description)
    }
    if endpoint.port != 0 { request.port = UInt32(endpoint.port) }
    self.request = request
  }

  /// Returns the processes that the text means, or `nil` if it means a host.
  private static func processes(_ text: String, in proc: String) throws -> [Int]? {
    if let process = Int(text) {
      guard ProcessName.read(process, in: proc) != nil else {
        throw ValidationError("there is no process \(process)")
      }
      return [process]
    }
    guard !text.contains(where: { ":[]/".contains($0) }) else { return nil }
    let processes = SocketOwners.processes(named: text, in: proc)
    return processes.isEmpty ? nil : processes
  }
}

extension Connectivity_V1_Diagnosis {
  /// The answer for a program without sockets.
  fileprivate static var withoutSockets: Self {
    var diagnosis = Self()
    diagnosis.verdict = .unknown
    diagnosis.path.status = .unknown
    diagnosis.evidence = ["the program has no connection"]
    return diagnosis
  }
}
