/// nl80211's messages on Linux 6.1, from a station and an access point of mac80211_hwsim. The
/// family's number was 32.
enum WirelessCaptures {
  static let family: UInt16 = 32

  /// Station 17 has joined "lab-a".
  static let connected = Capture(
    """
    b4000000 | nlmsg_len 180
    2000 | nlmsg_type nl80211
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    2e | cmd NL80211_CMD_CONNECT
    010000 | version 1, reserved
    0800010000000000 | NL80211_ATTR_WIPHY 0
    0800030011000000 | NL80211_ATTR_IFINDEX 17
    0a00060002000000010000000600480000000000 | NL80211_ATTR_MAC, NL80211_ATTR_STATUS_CODE 0
    55004d00 | NL80211_ATTR_REQ_IE
    00056c61622d61 | SSID
    010802040b160c121824 | rates
    32043048606c | more rates
    30140100000fac040100000fac040100000fac020000 | RSN
    7f0b04004a02014040400001203b155151525354737475767778797a7b7c7d7e7f808182 | what the station can do
    000000 | to the next multiple of four
    23004e0001 | NL80211_ATTR_RESP_IE
    0882848b960c12182432043048606c7f0804004002000000405a0324010000 | of the access point
    """)

  static let disconnected = Capture(
    """
    2c000000 | nlmsg_len 44
    2000 | nlmsg_type nl80211
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    30 | cmd NL80211_CMD_DISCONNECT
    010000 | version 1, reserved
    0800010000000000 | NL80211_ATTR_WIPHY 0
    0800030011000000 | NL80211_ATTR_IFINDEX 17
    0600360001000000 | NL80211_ATTR_REASON_CODE 1
    """)

  /// The beacons of station 17's access point are missing.
  static let beaconsLost = Capture(
    """
    2c000000 | nlmsg_len 44
    2000 | nlmsg_type nl80211
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    40 | cmd NL80211_CMD_NOTIFY_CQM
    010000 | version 1, reserved
    0800010000000000 | NL80211_ATTR_WIPHY 0
    0800030011000000 | NL80211_ATTR_IFINDEX 17
    08005e00 | NL80211_ATTR_CQM
    04000800 | NL80211_ATTR_CQM_BEACON_LOSS_EVENT
    """)

  /// Link 18 was created.
  static let made = Capture(
    """
    68000000 | nlmsg_len 104
    2000 | nlmsg_type nl80211
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    07 | cmd NL80211_CMD_NEW_INTERFACE
    010000 | version 1, reserved
    0800030012000000 | NL80211_ATTR_IFINDEX 18
    0a000400776c616e31000000 | NL80211_ATTR_IFNAME wlan1
    0800010001000000 | NL80211_ATTR_WIPHY 1
    0800050002000000 | NL80211_ATTR_IFTYPE station
    0c0099000100000001000000 | NL80211_ATTR_WDEV
    0a000600020000000100000008002e0013000000 | NL80211_ATTR_MAC, NL80211_ATTR_GENERATION
    05005300000000000800620000000000 | NL80211_ATTR_4ADDR, NL80211_ATTR_WIPHY_TX_POWER_LEVEL
    """)
}
