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
  /// `SO_MARK`: the mark of the packets, by which rules choose.
  fileprivate static let mark = Self(rawValue: 36)
  /// `SO_BINDTOIFINDEX`: the link that packets leave by, by its index. Since Linux 5.0, and since 5.7 without privileges on a
  /// socket that is bound to no link yet.
  static let bindToLink = Self(rawValue: 62)
  /// `SO_DONTROUTE`: packets go to neighbours only.
  static let dontRoute = Self(rawValue: 5)
}

// How the sockets of a channel's connections go out.
extension SocketOptionProvider {
  /// - Parameter mark: 0: none.
  func mark(_ mark: UInt32) -> EventLoopFuture<Void> {
    guard mark != 0 else { return self.eventLoop.makeSucceededVoidFuture() }
    return self.unsafeSetSocketOption(level: .socket, name: .mark, value: mark)
      .flatMapErrorThrowing { error in
        throw RPCError(
          code: .unavailable, message: "The mark \(mark) cannot be set: \(error)", cause: error)
      }
  }

  /// - Parameter interface: `nil`: whatever the routes say.
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
