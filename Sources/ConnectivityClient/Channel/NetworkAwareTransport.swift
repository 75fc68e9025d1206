public import ConnectivityMonitor
public import GRPCCore
public import GRPCNIOTransportHTTP2Posix
public import NIOCore
public import NIOPosix

/// A transport for `GRPCClient` that fails calls as soon as their network is gone.
///
/// The transport wraps gRPC's HTTP/2 transport, with and without TLS. Every generated stub works
/// unchanged:
///
/// ```swift
/// let client = GRPCClient(
///   transport: try .networkAware(
///     target: .dns(host: "example.com", port: 443), transportSecurity: .tls))
/// ```
///
/// 1. The first call makes the connection, and later calls reuse it (C1).
/// 2. When connd reports that the connection is no longer viable, calls in flight fail immediately
///    with `UNAVAILABLE`. The error's cause is an `InvalidationError` (C2). The next call resolves
///    the name again and makes a new connection, without a backoff (C3).
/// 3. If no connection can be made, calls wait for the outcome of one attempt. The attempt starts
///    after the backoff of gRPC's connection-backoff document, or as soon as the path is satisfied
///    (C4). If the name cannot be resolved, the call fails immediately with the resolver's error
///    (C5).
/// 4. Calls are never retried, unless the given `serviceConfig` asks for it (C6).
/// 5. Without connd, the channel behaves like a plain one. It uses connd once connd appears (C7).
/// 6. If connd asks whether the server is alive, the channel sends a TCP keepalive probe. While
///    calls run, it also sends a PING, at most one in five minutes (E4).
///
/// Load balancing is pick-first. The addresses of a name are tried in order, or in random order if
/// the given `serviceConfig` says so. The two families alternate. The next attempt starts when one
/// has failed, or has not answered for 250 ms (RFC 8305). All channels of a process share one
/// stream to connd. Safe to use from any task.
public final class NetworkAwareTransport: ClientTransport {
  public typealias Bytes = GRPCNIOTransportBytes

  let channel: Channel
  private let methods: MethodConfigs
  /// The settings for calls that have none of their own.
  private let calls: CallSettings.Box
  private let limit: DecompressionGuard?

  /// - Parameters:
  ///   - target: The server; resolved for each connection.
  ///   - transportSecurity: Plaintext, or TLS.
  ///   - config: The behaviour of the channel.
  ///   - resolverRegistry: The resolvers by kind of target.
  ///   - serviceConfig: Time limits, retries and sizes by method. If it lists load balancing
  ///     policies, the first supported one is used: pick-first. A configuration from the resolver
  ///     is not used, and a warning is logged to ``Config/backgroundActivityLogger``.
  ///   - eventLoopGroup: A `MultiThreadedEventLoopGroup`, or one of its loops. The channel runs all
  ///     its connections on one of its loops.
  /// - Throws: `RuntimeError` if no resolver handles the target, the TLS configuration cannot work,
  ///   or the `serviceConfig` lists only unsupported load balancing policies.
  public init(
    target: any ResolvableTarget,
    transportSecurity: HTTP2ClientTransport.Posix.TransportSecurity,
    config: Config = .defaults,
    resolverRegistry: NameResolverRegistry = .defaults,
    serviceConfig: ServiceConfig = ServiceConfig(),
    eventLoopGroup: any EventLoopGroup = .singletonMultiThreadedEventLoopGroup
  ) throws {
    guard let resolver = resolverRegistry.makeResolver(for: target) else {
      throw RuntimeError(
        code: .transportError, message: "No resolver is registered for the target '\(target)'.")
    }
    let pickFirst = serviceConfig.loadBalancingConfig.lazy.compactMap(\.pickFirst).first
    guard pickFirst != nil || serviceConfig.loadBalancingConfig.isEmpty else {
      throw RuntimeError(
        code: .invalidArgument,
        message: "The service config lists load balancing policies, but not pick-first.")
    }
    self.limit = config.compression.enabledAlgorithms == .none ? nil : DecompressionGuard()
    let settings = ConnectionSettings(
      config: config, security: transportSecurity, limit: self.limit,
      shufflesAddresses: pickFirst?.shuffleAddressList ?? false, eventLoop: eventLoopGroup.next(),
      otherWay: { await Connector.shared.otherWay(to: $0, port: $1, at: config.socket.path) },
      report: { await Connector.shared.report($0, to: $1, port: $2, at: config.socket.path) })
    // Reports a broken TLS configuration now rather than with the first call.
    let nowhere = FixedAddress(address: .unixDomainSocket(path: ""), authority: nil)
    _ = try settings.makeTransport(to: nowhere) { $0.eventLoop.makeSucceededVoidFuture() }
    self.methods = MethodConfigs(serviceConfig)
    self.calls = CallSettings.Box(config.calls)
    self.channel = Channel(
      settings, resolver: resolver, Resolution.Source(target, resolverRegistry, resolver))
  }

  /// The current state of the channel.
  public var connectivityState: ConnectivityState { self.channel.connectivity }

  /// The current state, and then each new state in order. Each access is a new subscription.
  public var connectivityStates: ConnectivityStates {
    ConnectivityStates(stream: self.channel.connectivityStates())
  }

  /// The events of the channel's connections. Each access is a new subscription. The events end
  /// when the channel is shut down.
  public var events: ConnectionEvents { ConnectionEvents(self.channel.events()) }

  public var retryThrottle: RetryThrottle? { self.methods.retryThrottle }

  /// Returns the service configuration of the method. The time limit comes from the current
  /// ``CallSettings``, or from the channel if the method has none.
  public func config(forMethod descriptor: MethodDescriptor) -> MethodConfig? {
    let config = self.methods[descriptor]
    // The call's settings take precedence over the method's, and the method's over the channel's.
    let general = config?.timeout == nil ? self.calls.settings.timeLimit : nil
    guard let limit = CallSettings.box?.settings.timeLimit ?? general else { return config }
    var limited = config ?? MethodConfig(names: [])
    limited.timeout = limit.remaining(.now)
    return limited
  }

  /// Runs connections until ``beginGracefulShutdown()`` was called and the last call has ended. If
  /// the task is cancelled, calls fail with `UNAVAILABLE`.
  public func connect() async throws {
    await self.channel.run()
  }

  public func beginGracefulShutdown() {
    self.channel.shutdown()
  }

  /// Returns the deadline of a call. gRPC passes the same timeout to each attempt of a retry
  /// policy. Only a deadline in the settings is the same for all attempts.
  private static func deadline(
    _ options: CallOptions, _ settings: CallSettings
  ) -> ContinuousClock.Instant? {
    let timeout = options.timeout.map { ContinuousClock.now + $0 }
    guard case .deadline(let deadline) = settings.timeLimit else { return timeout }
    return min(deadline, timeout ?? deadline)
  }

  /// The number of connections that may refuse to start a call before the call fails: gRPC's own
  /// limit for stream creation.
  private static let maxStreamAttempts = 5

  public func withStream<T: Sendable>(
    descriptor: MethodDescriptor, options: CallOptions,
    _ closure: (RPCStream<Inbound, Outbound>, ClientContext) async throws -> T
  ) async throws -> T {
    if let limit = options.maxResponseMessageBytes {
      // grpc-swift-nio-transport 2.9 applies the request limit to responses, and ignores the
      // response limit.
      var options = options
      (options.maxRequestMessageBytes, options.maxResponseMessageBytes) = (limit, nil)
      return try await self.withStream(descriptor: descriptor, options: options, closure)
    }
    let box = CallSettings.box?.filled(from: self.calls) ?? self.calls
    let log = box.tellsNobody ? nil : CallLog(box.settings, method: descriptor)
    log?.started()
    lazy var deadline = Self.deadline(options, box.settings)
    let isStream = descriptor.type != .unary
    var attempts = 0
    var hasWaited = false
    do {
      while true {
        let connection: Connection
        if let ready = self.channel.readyConnection() {
          connection = ready
        } else {
          connection = try await self.channel.connection(
            options, box.settings, until: deadline, log)
        }
        defer { connection.release() }
        if !box.settings.access.isUnrestricted {
          try await connection.check(box.settings.access, until: deadline)
        }
        if connection.isRetired {
          self.channel.refused(connection)
          continue
        }
        // A call waits only for one attempt beside a silent connection.
        if !hasWaited, await self.channel.holdsCalls(connection) {
          hasWaited = true
          continue
        }
        log?.assigned(to: connection.metadata)
        box.settings.onConnection?(connection.path)
        let sizes = self.limit?.begin(box.settings)
        defer { if let sizes { self.limit?.end(sizes) } }
        var hasStarted = false
        do {
          return try await connection.transport.withStream(descriptor: descriptor, options: options)
          { stream, context in
            hasStarted = true
            connection.enter(isStream: isStream)
            defer { connection.leave(isStream: isStream) }
            defer { log?.ended(throwing: CancellationError()) }
            let call = CallStream(on: connection, sizes: sizes, log: log)
            return try await closure(call.wrap(stream), context)
          }
        } catch let error as RPCError where !hasStarted && error.code == .unavailable {
          // Nothing was sent, because the connection closed before the call started. The call uses
          // the next connection.
          self.channel.refused(connection)
          attempts += 1
          if attempts == Self.maxStreamAttempts { throw error }
        }
      }
    } catch {
      log?.ended(throwing: error)
      if let reason = NetworkUnavailableError.Reason(of: error) {
        self.channel.metrics.refused(reason)
      }
      throw error
    }
  }
}

extension ClientTransport where Self == NetworkAwareTransport {
  /// A transport that fails calls as soon as their network is gone: see ``NetworkAwareTransport``.
  ///
  /// The parameters are those of its initializer.
  public static func networkAware(
    target: any ResolvableTarget,
    transportSecurity: HTTP2ClientTransport.Posix.TransportSecurity,
    config: NetworkAwareTransport.Config = .defaults,
    resolverRegistry: NameResolverRegistry = .defaults,
    serviceConfig: ServiceConfig = ServiceConfig(),
    eventLoopGroup: any EventLoopGroup = .singletonMultiThreadedEventLoopGroup
  ) throws -> Self {
    try NetworkAwareTransport(
      target: target, transportSecurity: transportSecurity, config: config,
      resolverRegistry: resolverRegistry, serviceConfig: serviceConfig,
      eventLoopGroup: eventLoopGroup)
  }
}
