internal import ConnectivitySession
public import GRPCCore
public import GRPCNIOTransportHTTP2Posix
public import NIOCore
public import NIOPosix

/// A transport for `GRPCClient` whose calls end when the network under them does.
///
/// It wraps gRPC's HTTP/2 transport, with and without TLS, and every generated stub works unchanged:
///
/// ```swift
/// let client = GRPCClient(
///   transport: try .networkAware(
///     target: .dns(host: "example.com", port: 443), transportSecurity: .tls))
/// ```
///
/// 1. The connection is made when the first call starts, and kept for later ones (C1).
/// 2. When connd says that the connection is no longer viable, calls in flight end with `UNAVAILABLE` at once; the error's
///    cause is a ``FlowInvalidation`` (C2). The next call resolves the name anew and makes a new connection, without a
///    backoff (C3).
/// 3. Where a connection cannot be made, calls wait for the outcome of one attempt, which starts after the backoff of
///    gRPC's connection-backoff document, or as soon as the path is satisfied (C4). A name that cannot be resolved fails
///    the call at once, in the resolver's words (C5).
/// 4. No call is ever retried, unless the `serviceConfig` given says so (C6).
/// 5. Without connd it is a plain channel, and finds connd when it comes (C7).
///
/// Load balancing is pick-first: the addresses of a name are tried in their order, or shuffled where the `serviceConfig` given
/// says so, the two families in turn; the next one where one has failed or has not answered for 250 ms (RFC 8305). All channels of a process share one stream to connd. Safe to use from any task.
public final class NetworkAwareTransport: ClientTransport {
  public typealias Bytes = GRPCNIOTransportBytes

  let channel: Channel
  private let methods: MethodConfigs
  /// What holds for calls that say nothing themselves.
  private let calls: CallSettings.Box
  private let limit: DecompressionGuard?

  /// - Parameters:
  ///   - target: What to connect to; resolved for each connection.
  ///   - transportSecurity: Plaintext, or TLS.
  ///   - config: How the channel behaves.
  ///   - resolverRegistry: Who resolves which kind of target.
  ///   - serviceConfig: Time limits, retries and sizes by method. Of the load balancing policies that it lists the first one that
  ///     is supported holds, which is pick-first. One that the resolver brings is not used; the
  ///     ``Config/backgroundActivityLogger`` is told so.
  ///   - eventLoopGroup: A `MultiThreadedEventLoopGroup`, or one of its loops. The channel takes one, on which it makes and
  ///     keeps its connections.
  /// - Throws: `RuntimeError` where nobody resolves the target, TLS is not configured so that it can work, or the
  ///   `serviceConfig` lists load balancing policies and none that is supported.
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
        message: "Of the load balancing policies that the service config lists none is pick-first.")
    }
    self.limit = config.decompressionLimit.map { DecompressionGuard(limit: $0) }
    let settings = ConnectionSettings(
      config: config, security: transportSecurity, limit: self.limit,
      shufflesAddresses: pickFirst?.shuffleAddressList ?? false, eventLoop: eventLoopGroup.next())
    // TLS that cannot work is said now, and not with the first call.
    let nowhere = FixedAddress(address: .unixDomainSocket(path: ""), authority: nil)
    _ = try settings.makeTransport(to: nowhere) { $0.eventLoop.makeSucceededVoidFuture() }
    self.methods = MethodConfigs(serviceConfig)
    self.calls = CallSettings.Box(config.calls)
    self.channel = Channel(settings, resolver: resolver)
  }

  /// The state of the channel at this moment.
  public var connectivityState: ConnectivityState { self.channel.connectivity }

  /// The present state, and then each one that the channel becomes, in order; ends after ``ConnectivityState/shutdown``.
  ///
  /// Each sequence is for one task. Who does not read keeps the last 64.
  public var connectivityStates: AsyncStream<ConnectivityState> {
    self.channel.connectivityStates()
  }

  public var retryThrottle: RetryThrottle? { self.methods.retryThrottle }

  /// What the service configuration says of the method, and the time limit of the present ``CallSettings``; the channel's for
  /// methods that have none.
  public func config(forMethod descriptor: MethodDescriptor) -> MethodConfig? {
    let config = self.methods[descriptor]
    // What is said of the call goes before what is said of its method, and that before what is said of the channel.
    let general = config?.timeout == nil ? self.calls.settings.timeLimit : nil
    guard let limit = CallSettings.box?.settings.timeLimit ?? general else { return config }
    var limited = config ?? MethodConfig(names: [])
    limited.timeout = limit.remaining(.now)
    return limited
  }

  /// Keeps connections for as long as they are wanted: until ``beginGracefulShutdown()`` and the end of the last call,
  /// or until its task is cancelled, with which calls end with `UNAVAILABLE`.
  public func connect() async throws {
    await self.channel.run()
  }

  public func beginGracefulShutdown() {
    self.channel.shutdown()
  }

  /// When a call is over. gRPC hands the same timeout to each of a call's attempts (of a retry policy), so that only a deadline of
  /// the settings' own is the same for all.
  private static func deadline(
    _ options: CallOptions, _ settings: CallSettings
  ) -> ContinuousClock.Instant? {
    let timeout = options.timeout.map { ContinuousClock.now + $0 }
    guard case .deadline(let deadline) = settings.timeLimit else { return timeout }
    return min(deadline, timeout ?? deadline)
  }

  public func withStream<T: Sendable>(
    descriptor: MethodDescriptor, options: CallOptions,
    _ closure: (RPCStream<Inbound, Outbound>, ClientContext) async throws -> T
  ) async throws -> T {
    if let limit = options.maxResponseMessageBytes {
      // grpc-swift-nio-transport 2.9 holds responses to the bound for requests, and has none for responses.
      var options = options
      (options.maxRequestMessageBytes, options.maxResponseMessageBytes) = (limit, nil)
      return try await self.withStream(descriptor: descriptor, options: options, closure)
    }
    let box = CallSettings.box?.filled(from: self.calls) ?? self.calls
    let log = box.tellsNobody ? nil : CallLog(box.settings, method: descriptor)
    log?.started()
    lazy var deadline = Self.deadline(options, box.settings)
    do {
      while true {
        let connection: Connection
        if let ready = self.channel.readyConnection() {
          connection = ready
        } else {
          connection = try await self.channel.connection(
            options, box.settings.access, until: deadline, log)
        }
        defer { connection.release() }
        if !box.settings.access.isUnrestricted {
          try await connection.check(box.settings.access, until: deadline)
        }
        if connection.isRetired {
          self.channel.refused(connection)
          continue
        }
        log?.assigned(to: connection.metadata)
        let sizes = self.limit?.begin()
        defer { if let sizes { self.limit?.end(sizes) } }
        var hasStarted = false
        do {
          return try await connection.transport.withStream(descriptor: descriptor, options: options)
          { stream, context in
            hasStarted = true
            connection.enter()
            defer { connection.leave() }
            defer { log?.ended(throwing: CancellationError()) }
            let call = CallStream(on: connection, sizes: sizes, log: log)
            return try await closure(call.wrap(stream), context)
          }
        } catch let error as RPCError where !hasStarted && error.code == .unavailable {
          // Nothing was sent: the connection went between the choice and the call, which takes the next.
          self.channel.refused(connection)
        }
      }
    } catch {
      log?.ended(throwing: error)
      throw error
    }
  }
}

extension ClientTransport where Self == NetworkAwareTransport {
  /// A transport whose calls end when the network under them does: see ``NetworkAwareTransport``.
  ///
  /// - Parameters: As those of ``NetworkAwareTransport/init(target:transportSecurity:config:resolverRegistry:serviceConfig:eventLoopGroup:)``.
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
