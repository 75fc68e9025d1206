import DequeModule

/// What waits to be done for users, who take turns: who wants much waits for himself.
///
/// How much of a user's waits is bounded where it comes in.
struct FairQueue<Element> {
  private var waiting: [UInt32: Deque<Element>] = [:]
  /// Those who wait for something, the next one first.
  private var users: Deque<UInt32> = []

  var isEmpty: Bool { self.users.isEmpty }

  mutating func append(_ element: Element, of user: UInt32) {
    if self.waiting[user] == nil { self.users.append(user) }
    self.waiting[user, default: []].append(element)
  }

  /// Takes the first of the user whose turn it is.
  mutating func popFirst() -> Element? {
    guard let user = self.users.popFirst() else { return nil }
    let element = self.waiting[user]?.popFirst()
    if self.waiting[user]?.isEmpty == false {
      self.users.append(user)
    } else {
      self.waiting[user] = nil
    }
    return element
  }

  /// Takes all that `isChosen`, whoever waits for it.
  mutating func remove(where isChosen: (Element) -> Bool) -> [Element] {
    var chosen: [Element] = []
    for user in self.users {
      guard let elements = self.waiting[user], elements.contains(where: isChosen) else { continue }
      chosen += elements.filter(isChosen)
      let others = elements.filter { !isChosen($0) }
      self.waiting[user] = others.isEmpty ? nil : Deque(others)
    }
    self.users.removeAll { self.waiting[$0] == nil }
    return chosen
  }
}
