import TestKit
import Testing

/// `dev/check-shape`, with sources of its own.
@Suite("The check of the sizes of sources")
struct ShapeCheckTests {
  private let directory: TemporaryDirectory

  init() throws {
    self.directory = try TemporaryDirectory()
    try Command.run(
      ["mkdir", "-p", "\(self.directory.path)/dev", "\(self.directory.path)/Sources/Library"])
    try self.directory.write("target Library 1000\n", to: "dev/shape")
  }

  private func check(_ arguments: String...) throws -> Command.Outcome {
    try Command.outcome(of: [Checkout.path("dev/check-shape")] + arguments + [self.directory.path])
  }

  private func write(_ text: String, to file: String) throws {
    try self.directory.write(text, to: "Sources/Library/\(file).swift")
  }

  private func expect(_ complaints: [String]) throws {
    let outcome = try self.check()
    #expect(outcome.standardError.split(separator: "\n").dropLast().map(String.init) == complaints)
    #expect(outcome.status == (complaints.isEmpty ? 0 : 1))
  }

  /// Lines of code, each with a brace in a string or a comment.
  private static func lines(_ count: Int) -> String {
    [
      #"    let a = "{\(self.b["{"])""#, "    // }", "    /* } /* } */ } */",
      ##"    let c = #"" } \#(self.d) \("#"##, "    let e = try? #/ } \" /#.wholeMatch(in: c)",
      "    let f = \"\"\"\n      } \" {\n      \"\"\"",
    ].joined(separator: "\n") + String(repeating: "\n    self.g()", count: count - 8)
  }

  @Test("a function has 70 lines → it may; it has 71 → the check names it", arguments: [70, 71])
  func function(lines: Int) throws {
    try self.write(
      """
      protocol P {
        func f<T: P>(_ a: () -> Void) -> T where T: Q
        init(_ a: Int)
      }
      struct S {
        init(_ a: () -> Void = { () }) async throws {
      \(Self.lines(lines))
        }
        func small() {}
      }

      """, to: "S")
    try self.expect(
      lines == 70 ? [] : ["function Library/S.swift:init: 71 lines, more than 70"])
  }

  @Test("a file has 351 lines, and its target more than its budget → the check names both")
  func file() throws {
    try self.directory.write("target Library 300\n", to: "dev/shape")
    try self.write(String(repeating: "let a = 0\n", count: 351), to: "A")
    try self.expect([
      "file Library/A.swift: 351 lines, more than 350",
      "target Library: 351 lines, more than 300",
    ])
    #expect(try self.check("update").status == 1)
    try self.expect(["file Library/A.swift: 351 lines, more than 350"])
  }

  @Test("a type stands in four files → the check names it, unless it is an exception with a reason")
  func type() throws {
    try self.write("enum Outer { struct Inner {} }\n", to: "A")
    for file in ["B", "C", "D"] {
      try self.write("extension Outer.Inner {}\nextension Other {}\n", to: file)
    }
    try self.expect(["type Library.Outer.Inner: 4 files, more than 3"])
    let exception = "target Library 1000\ntype Library.Outer.Inner 4"
    try self.directory.write(exception + " one file for each case\n", to: "dev/shape")
    try self.expect([])
    try self.directory.write(exception + "\n", to: "dev/shape")
    #expect(try self.check().standardError.contains("needs a reason"))
  }
}
