private import CLinux

/// The arguments of the program, without its name.
package enum ProgramArguments {
  /// The arguments from the C library. `CommandLine.arguments` reads /proc/self/cmdline instead.
  /// Without /proc it is empty, and the program would ignore its real arguments.
  package static var all: [String] {
    var arguments: [String] = []
    var next = clinux_arguments()
    while let argument = next?.pointee {
      arguments.append(String(cString: argument))
      next = next?.successor()
    }
    return Array(arguments.dropFirst())
  }
}
