import Glibc
import TestKit
import TestTraits
import Testing

/// Status bars, metrics and completions: connctl's output as other programs read it.
@Suite("connctl for other programs", .needsNamespaces, .blocking)
struct BarsScenario {
  private static let page = "docs/how-to/show-the-network-in-a-bar.md"

  private func online() throws -> Laboratory {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  /// The environment in which `connctl` is the tested one and finds the tested connd.
  private func environment(_ lab: Laboratory) -> [String] {
    let directory = Programs.connctl.split(separator: "/").dropLast().joined(separator: "/")
    return [
      "sh", "-c", #"PATH="$0:$PATH"; export PATH; exec "$@""#, "/\(directory)", "env",
      "CONND_SOCKET=\(lab.socket)",
    ]
  }

  @Test(
    "a bar shows what the page's recipe gives it, and each change",
    arguments: [
      ("waybar", "= eth0", "x "), ("polybar", "wired eth0", "none"),
      ("i3blocks", "wired eth0", "none "),
    ])
  func bars(bar: String, online: String, offline: String) throws {
    let lab = try self.online()
    let program = try Python.path("Tests/Programs/python/bars.py")
    let running = try RunningCommand(
      self.environment(lab) + program + [Checkout.path(Self.page), bar])
    #expect(try running.nextLine() == online)
    try lab.outside.ip("link set eth0 down")
    #expect(try running.nextLine() == offline)
    try lab.outside.ip("link set eth0 up")
    #expect(try running.nextLine() == online)
  }

  @Test("connd goes away and returns → a bar shows an unknown network, and then the network")
  func away() throws {
    let lab = try self.online()
    let bar = try RunningCommand([
      Programs.connctl, "--socket", lab.socket, "watch", "--format", "{category} {interface}",
    ])
    #expect(try bar.nextLine() == "wired eth0")
    try #require(lab.connd).terminate()
    #expect(try bar.nextLine() == "unknown ")
    try lab.startConnd()
    #expect(try bar.nextLine() == "wired eth0")
  }

  @Test("starship's module appears while the machine is online")
  func starship() throws {
    let lab = try self.online()
    let command = lab.namespace.wrapped(
      try self.environment(lab) + Python.path("Tests/Programs/python/bars.py") + [
        Checkout.path(Self.page), "starship",
      ])
    #expect(try Command.run(command) == "wired eth0\n")
    try lab.outside.ip("link set eth0 down")
    try waitUntil("connd knows") { try lab.connctl("is", "none").status == 0 }
    #expect(try Command.outcome(of: command).status == 1)
  }

  @Test("a real tmux shows the network in its status line, and each change")
  func tmux() throws {
    let lab = try self.online()
    let page = try Command.run(["cat", Checkout.path(Self.page)])
    let line = try #require(
      page.split(separator: "\n").first { $0.hasPrefix("set -g status-right") })
    let directory = try TemporaryDirectory()
    let file = try directory.write("\(line)\nset -g status-interval 1\n", to: "inner.conf")
    let terminal = try TerminalEmulator(
      columns: 100, rows: 10, environment: ["CONND_SOCKET": lab.socket])
    let programs = Programs.connctl.split(separator: "/").dropLast().joined(separator: "/")
    try terminal.run(
      "unset TMUX; PATH=/\(programs):$PATH tmux -u -S \(directory.path)/inner -f \(file) new-session 'sleep 1000'"
    )
    defer { _ = try? Command.run(["tmux", "-S", "\(directory.path)/inner", "kill-server"]) }
    try terminal.wait("the status line shows the link") {
      $0.contains { $0.hasSuffix("wired eth0") }
    }
    try lab.outside.ip("link set eth0 down")
    try terminal.wait("the status line shows the loss") { $0.contains { $0.hasSuffix("none") } }
  }

  @Test("prometheus_client reads connctl metrics, as OpenMetrics and as Prometheus' older format")
  func metrics() throws {
    let lab = try self.online()
    _ = try lab.connctl("is", "online")
    let pipe = [
      "bash", "-o", "pipefail", "-c", #"connctl metrics | "$@""#, "bash",
    ]
    let samples = try Command.run(
      self.environment(lab) + pipe + Python.path("Tests/Programs/python/openmetrics.py")
    ).split(separator: "\n").map(String.init)
    for sample in [
      "connd_category category=wired 1", "connd_category category=none 0",
      "connd_flag flag=reachable 1", "connd_path_satisfied family=ipv4 1",
      "connd_path_satisfied family=ipv6 0", "connd_published_total event=transition 1",
      "connd_overruns_total 0", "connd_subscribers 0",
    ] {
      #expect(samples.contains(sample), "\(sample) of \(samples)")
    }
    #expect(samples.contains { $0.hasPrefix("connd_generation ") })
  }

  @Test("bash completes commands, links, conditions after a comma, values and help topics")
  func completion() throws {
    let lab = try self.online()
    let lines = [
      ("connctl histo", "history"), ("connctl guard 192.0.2.1 --interface eth", "eth0"),
      ("connctl is online --via eth", "eth0"),
      ("connctl run --when online,not-met", "online,not-metered"),
      ("connctl metered aut", "auto"), ("connctl constrain eth", "eth0"),
      ("connctl help hist", "history"),
      ("connctl on trans", "transition"), ("connctl keep online,wif", "online,wifi"),
    ]
    let output = try Command.run(
      self.environment(lab) + Self.completer("bash") + lines.map(\.0))
    #expect(
      output.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        == lines.map { $0.1[...] }[...])
  }

  /// Returns a command that prints the completions of each argument in a shell.
  private static func completer(_ shell: String) -> [String] {
    switch shell {
    case "bash":
      let script = #"""
        source <(connctl completion bash)
        complete_line() {
          COMP_LINE="$1" COMP_POINT=${#1} COMPREPLY=()
          read -ra COMP_WORDS <<<"$1"
          case $1 in *' ') COMP_WORDS+=('') ;; esac
          COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
          _connctl connctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
          echo "${COMPREPLY[*]}"
        }
        for line in "$@"; do complete_line "$line"; done
        """#
      return ["bash", "--norc", "-c", script, "bash"]
    case "zsh":
      // Completion needs a terminal. The shell reports when its editor reads keys. Earlier keys go
      // to the terminal, and the terminal would erase the line itself.
      let script = #"""
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell 'autoload -Uz compinit; compinit -D -u; source =(connctl completion zsh)
          zle-line-init() print -n REA''DY; zle -N zle-line-init'
        zpty -r shell output '*READY*'
        for line in "$@"; do
          zpty -w -n shell "$line"$'\t\x15\n'
          zpty -r shell output '*READY*'
          print -r -- "$output"
        done
        """#
      return ["zsh", "-f", "-c", script, "zsh"]
    default:
      let script = """
        connctl completion fish | source
        for line in $argv; complete -C $line; end
        """
      return ["fish", "--no-config", "-c", script]
    }
  }

  @Test(
    "links, networks and overrides named like commands → completion runs none of them",
    arguments: ["bash", "zsh", "fish"])
  func hostileNames(shell: String) throws {
    if shell != "bash" { try TestSize.needsAll("zsh and fish") }
    let lab = try self.online()
    try lab.namespace.ip("link add $(id>link) type veth peer name peer0")
    for place in ["--link=$(id>override)", "--network=$(id>network)"] {
      #expect(try lab.connctl("metered", place, "on").status == 0)
    }
    let directory = try TemporaryDirectory()
    let output = try Command.run(
      self.environment(lab) + [
        "env", "--chdir=\(directory.path)", "HOME=\(lab.directory.path)",
      ] + Self.completer(shell) + [
        "connctl is online --via ", "connctl explain e", "connctl forget ", "connctl metered ",
        "connctl metered --network ",
      ])
    #expect(output.contains("eth0"), "\(output)")
    #expect(!output.contains("id>"), "\(output)")
    #expect(try Command.run(["ls", directory.path]) == "")
  }

  @Test("a long history opens in less on a terminal, which then has its shell back")
  func pager() throws {
    let lab = try self.online()
    for _ in 0..<12 {
      try lab.outside.ip("link set eth0 down")
      try waitUntil("connd knows") { try lab.connctl("is", "none").status == 0 }
      try lab.outside.ip("link set eth0 up")
      try waitUntil("connd knows") { try lab.connctl("is", "online").status == 0 }
    }
    let terminal = try TerminalEmulator(
      columns: 100, rows: 10, environment: ["CONND_SOCKET": lab.socket, "PAGER": "less"])
    try terminal.run("clear; \(Programs.connctl) history --since 1h; echo status $?")
    try terminal.wait("less shows the first screen") {
      $0.first?.contains("connd started") == true
        && $0.contains { $0.contains("carrier lost on eth0 · to end: connections on eth0") }
    }
    try terminal.press("q")
    try terminal.wait("the shell is back") { $0.contains("status 0") }
  }

  @Test("a link-local address with a link → its path by that link, although another one is default")
  func boundPath() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], ipv6: true)
    try lab.startConnd()
    let path = try Command.outcome(
      of: lab.namespace.wrapped(
        [Programs.connctl, "--socket", lab.socket, "path", "fe80::77%wlan0", "--json"]))
    #expect(path.output.contains(#""interface": "wlan0""#), "\(path)")
    #expect(path.output.hasPrefix(#"{"destination": "fe80::77%wlan0""#), "\(path)")
  }
}
