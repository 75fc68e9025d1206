import TestKit
import Testing

@testable import ConndServer

@Suite("Users take turns")
struct FairQueueTests {
  private func all(_ queue: inout FairQueue<Int>) -> [Int] {
    var all: [Int] = []
    while let element = queue.popFirst() { all.append(element) }
    #expect(queue.isEmpty)
    return all
  }

  @Test("D4 however much one wants, the others wait for one of his only")
  func turns() {
    var queue = FairQueue<Int>()
    for number in 1...5 { queue.append(number, of: 1000) }
    queue.append(10, of: 0)
    queue.append(20, of: 1001)
    queue.append(11, of: 0)
    #expect(queue.popFirst() == 1)
    queue.append(30, of: 1002)
    #expect(self.all(&queue) == [10, 20, 2, 30, 11, 3, 4, 5])
  }

  @Test("D4 what nobody waits for any more is taken out, and the others keep their places")
  func removal() {
    var queue = FairQueue<Int>()
    for number in 1...3 { queue.append(number, of: 1000) }
    queue.append(10, of: 0)
    #expect(queue.remove { $0 == 2 || $0 == 10 } == [2, 10])
    #expect(queue.remove { $0 == 2 }.isEmpty)
    queue.append(11, of: 0)
    #expect(self.all(&queue) == [1, 11, 3])
    #expect(queue.remove { _ in true }.isEmpty)
  }

  @Test(
    "D4 of any coming and going nothing is lost, and each user's are in order", arguments: 0..<4)
  func random(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    var queue = FairQueue<(user: UInt32, number: Int)>()
    var present: [UInt32: [Int]] = [:]
    for number in 0..<5000 {
      let user = UInt32(random.number(0...3))
      switch random.number(0...9) {
      case 0...4:
        queue.append((user, number), of: user)
        present[user, default: []].append(number)
      case 9:
        let removed = queue.remove { $0.user == user && $0.number % 3 == 0 }
        #expect(removed.map(\.number) == present[user, default: []].filter { $0 % 3 == 0 })
        present[user]?.removeAll { $0 % 3 == 0 }
      default:
        guard let next = queue.popFirst() else {
          #expect(present.values.allSatisfy { $0.isEmpty })
          continue
        }
        #expect(present[next.user]?.removeFirst() == next.number)
      }
    }
  }
}
