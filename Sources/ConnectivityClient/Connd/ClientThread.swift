package import NIOCore
private import NIOPosix

/// The one thread that serves all of a process's connections to connd: one of those that NIO keeps for the whole
/// process, so that none is left behind that was not there before.
package enum ClientThread {
  package static let eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
}
