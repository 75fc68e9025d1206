import ArgumentParser
import Connectivity
import ConnectivityMonitor

struct TopCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "top", "Show a live screen: category, paths, links, changes and clients.",
    discussion: """
      Shows the category, the path of each family, the links with their throughput (from the \
      kernel's counters, every two seconds), the last changes, and the clients of connd: your own \
      programs, or all programs for root.

      q or Ctrl-C quits, / filters, s sorts, ? shows all keys. A ? after a link's name marks a guess. \
      If standard output is not a terminal, or TERM is dumb, shows it once.
      """,
    examples: ["connctl top", "connctl top | cat"])

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let feed = try await OverviewFeed(socket: self.socket, through: connector)
    if self.console.isLive {
      try await self.show(feed, through: connector)
    } else {
      let drawing = Overview.Drawing(
        columns: self.console.style.width, rows: nil, glyphs: self.console.glyphs,
        style: self.console.style,
        now: self.console.now())
      let color = self.console.style.color
      try self.console.print(feed.overview.lines(drawing).map { $0.text(color: color) })
    }
  }

  /// Shows the view until the user quits.
  private func show(_ feed: OverviewFeed, through connector: Connector) async throws {
    let console = self.console
    let (questions, ask) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let view = try LiveView(color: console.style.color) { size, options in
      feed.overview.frame(
        size, console.glyphs, console.style, now: console.now(), options: options)
    } read: { isFresh in
      if feed.readCounters(isFresh: isFresh) { ask.yield() }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await view.run() }
      group.addTask {
        try await StatusFollower(socket: self.socket, through: connector).run { event in
          feed.take(event)
          view.readSoon()
        }
      }
      group.addTask {
        for await _ in questions {
          try await feed.ask()
          view.refresh()
        }
      }
      // If the user quits or something fails, the terminal is restored before any message.
      defer { group.cancelAll() }
      _ = try await group.next()
    }
  }
}
