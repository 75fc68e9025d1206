package import NIOCore
private import NIOPosix

/// The single thread for all of a process's connections to connd. It is one of NIO's global
/// threads, so that using connd leaves no additional thread behind.
package enum ClientThread {
  package static let eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
}
