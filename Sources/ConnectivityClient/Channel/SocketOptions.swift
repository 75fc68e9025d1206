internal import GRPCCore
internal import NIOCore

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

extension NIOBSDSocket.Option {
  /// `SO_MARK`: the mark of the packets, which routing rules can match.
  fileprivate static let mark = Self(rawValue: 36)
  /// `SO_BINDTOIFINDEX`: the link for outgoing packets, by index. Exists since Linux 5.0. Since 5.7
  /// it needs no privileges if the socket is not yet bound to a link.
  static let bindToLink = Self(rawValue: 62)
  /// `SO_DONTROUTE`: sends to neighbours only.
  static let dontRoute = Self(rawValue: 5)
}

extension SocketOptionProvider {
  /// - Parameter mark: 0 means none.
  func mark(_ mark: UInt32) -> EventLoopFuture<Void> {
    guard mark != 0 else { return self.eventLoop.makeSucceededVoidFuture() }
    return self.unsafeSetSocketOption(level: .socket, name: .mark, value: mark)
      .flatMapErrorThrowing { error in
        throw RPCError(
          code: .unavailable, message: "The mark \(mark) cannot be set: \(error)", cause: error)
      }
  }

  /// - Parameter interface: `nil` leaves the choice to the routes.
  func bind(to interface: String?) -> EventLoopFuture<Void> {
    guard let interface else { return self.eventLoop.makeSucceededVoidFuture() }
    let index = if_nametoindex(interface)
    guard index != 0 else {
      return self.eventLoop.makeFailedFuture(
        RPCError(code: .unavailable, message: "There is no link \(interface)."))
    }
    return self.unsafeSetSocketOption(level: .socket, name: .bindToLink, value: index)
      .flatMapErrorThrowing { error in
        throw RPCError(
          code: .unavailable, message: "No connection can be bound to \(interface): \(error)",
          cause: error)
      }
  }
}
