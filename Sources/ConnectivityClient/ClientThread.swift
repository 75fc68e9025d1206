package import NIOCore
package import NIOPosix

/// The one thread that serves all of a process's connections to connd.
///
/// It starts with the first connection and lasts as long as the process, asleep while connd is silent.
package enum ClientThread {
  package static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  package static var eventLoop: any EventLoop { self.group.next() }
}
