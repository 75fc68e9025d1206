import ArgumentParser
import Connectivity
import ConnectivitySession

struct TopCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "top",
    abstract: "Show on one screen where traffic goes, and keep it up to date.",
    discussion: """
      The category, the way of each family, links with what goes over them (as the kernel counts, every two seconds), the last \
      changes, and who follows connd: your own programs, or everybody's for root.

      q or Ctrl-C ends it, Ctrl-L draws it anew. Where standard output is no terminal, or TERM is dumb, it is shown once.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func validate() throws {
    guard !self.json else {
      throw ValidationError("top is for people: status, links, history and stats have --json")
    }
  }

  func run(through dialler: any Dialler) async throws {
    let feed = try await OverviewFeed(socket: self.socket, through: dialler)
    if self.console.isLive {
      try await self.show(feed, through: dialler)
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
  private func show(_ feed: OverviewFeed, through dialler: any Dialler) async throws {
    let console = self.console
    let (questions, ask) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let view = try LiveView(color: console.style.color) { size in
      feed.overview.frame(size, console.glyphs, console.style, now: console.now())
    } read: { isFresh in
      if feed.readCounters(isFresh: isFresh) { ask.yield() }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await view.run() }
      group.addTask {
        try await StatusFollower(socket: self.socket, through: dialler).run { event in
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
