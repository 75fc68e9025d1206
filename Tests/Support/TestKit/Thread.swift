import Glibc

/// Runs the body on a new thread.
package func startThread(_ body: @escaping @Sendable () -> Void) {
  final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
  var thread = pthread_t()
  let argument = Unmanaged.passRetained(Body(body)).toOpaque()
  pthread_create(
    &thread, nil,
    { argument in
      argument.map { Unmanaged<Body>.fromOpaque($0).takeRetainedValue() }?.run()
      return nil
    }, argument)
  pthread_detach(thread)
}
