private import CSystemd
private import Glibc

/// The local seat of the machine, as systemd-logind knows it (sd_seat_get_active(3)).
package enum Seat {
  /// The user of the active session on the first seat, or `nil` without a session or logind.
  package static var activeUser: UInt32? {
    var user = uid_t.max
    return sd_seat_get_active("seat0", nil, &user) >= 0 && user != .max ? user : nil
  }
}
