import Testing

@testable import ConnctlCommands

@Suite("Completions")
struct CompletionTests {
  @Test("completions contain the commands and the conditions", arguments: ["bash", "zsh", "fish"])
  func completions(shell: String) async {
    for arguments in [["--generate-completion-script", shell], ["completion", shell]] {
      let screen = Screen()
      #expect(await runConnctl(arguments, on: screen.console) == 0)
      for word in ["status", "history", "guard", "not-cellular", "timeout", "connctl names links"] {
        #expect(screen.output.contains(word), "\(word)")
      }
      // compgen would run what a name of a link contains.
      #expect(!screen.output.contains(#"-W "$("#))
    }
    let screen = Screen()
    #expect(await runConnctl(["completion", "tcsh"], on: screen.console) == 64)
  }

  @Test(
    "names for completions",
    arguments: [
      ("links", ["wlan0", "docker0"]), ("costs", ["on", "off", "auto", "wlan0", "docker0"]),
      ("networks", ["00000000000000ff", "0123456789abcdef"]),
      ("overrides", ["00000000000000ff", "0123456789abcdef", "eth0"]),
    ])
  func names(kind: String, names: [String]) async throws {
    #expect(try await connctl("names", kind).screen.outputLines == names)
  }

  @Test("a completion of conditions continues after a comma")
  func conditionsAfterComma() async {
    let screen = Screen()
    let status = await runConnctl(
      [
        "---completion", "run", "--", "--when", "3", "12", "connctl", "run", "--when",
        "online,not-m",
      ],
      on: screen.console)
    #expect(status == 0)
    #expect(screen.outputLines.contains("online,not-metered"), "\(screen.output) \(screen.errors)")
  }
}
