/// Neighbour messages of Linux 6.18.
enum NeighbourCaptures {
  /// A neighbour that answered.
  static let reachable4 = Capture(
    """
    4c000000 | nlmsg_len 76
    1c00 | nlmsg_type RTM_NEWNEIGH
    0000 | nlmsg_flags 0x0
    00000000d9680000 | nlmsg_seq, nlmsg_pid
    02 | ndm_family 2
    000000 | ndm_pad1, ndm_pad2
    0a000000 | ndm_ifindex 10
    0200 | ndm_state NUD_REACHABLE
    00 | ndm_flags 0x0
    01 | ndm_type RTN_UNICAST
    08000100c0000201 | NDA_DST 192.0.2.1
    0a000200020000000001 | NDA_LLADDR 02:00:00:00:00:01
    0000 | to the next multiple of four
    0800040000000000 | NDA_PROBES 0
    1400030000000000000000000000000002000000 | NDA_CACHEINFO
    """)

  /// The same one, silent for a while.
  static let stale4 = Capture(
    """
    4c000000 | nlmsg_len 76
    1c00 | nlmsg_type RTM_NEWNEIGH
    0000 | nlmsg_flags 0x0
    000000000c690000 | nlmsg_seq, nlmsg_pid
    02 | ndm_family 2
    000000 | ndm_pad1, ndm_pad2
    0a000000 | ndm_ifindex 10
    0400 | ndm_state NUD_STALE
    00 | ndm_flags 0x0
    01 | ndm_type RTN_UNICAST
    08000100c0000201 | NDA_DST 192.0.2.1
    0a000200020000000001 | NDA_LLADDR 02:00:00:00:00:01
    0000 | to the next multiple of four
    0800040000000000 | NDA_PROBES 0
    140003001e0000001e0000000000000001000000 | NDA_CACHEINFO
    """)

  /// A neighbour that did not answer.
  static let failed4 = Capture(
    """
    40000000 | nlmsg_len 64
    1c00 | nlmsg_type RTM_NEWNEIGH
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    02 | ndm_family 2
    000000 | ndm_pad1, ndm_pad2
    0a000000 | ndm_ifindex 10
    2000 | ndm_state NUD_FAILED
    00 | ndm_flags 0x0
    01 | ndm_type RTN_UNICAST
    08000100c000024d | NDA_DST 192.0.2.77
    0800040006000000 | NDA_PROBES 6
    14000300a4180000340100000000000001000000 | NDA_CACHEINFO
    """)

  /// A router by its link-local address.
  static let router6 = Capture(
    """
    58000000 | nlmsg_len 88
    1c00 | nlmsg_type RTM_NEWNEIGH
    0000 | nlmsg_flags 0x0
    000000003d690000 | nlmsg_seq, nlmsg_pid
    0a | ndm_family 10
    000000 | ndm_pad1, ndm_pad2
    0a000000 | ndm_ifindex 10
    0200 | ndm_state NUD_REACHABLE
    80 | ndm_flags NTF_ROUTER
    01 | ndm_type RTN_UNICAST
    14000100fe800000000000000000000000000001 | NDA_DST fe80::1
    0a000200020000000009 | NDA_LLADDR 02:00:00:00:00:09
    0000 | to the next multiple of four
    0800040000000000 | NDA_PROBES 0
    1400030000000000000000000000000002000000 | NDA_CACHEINFO
    """)

  /// ip neigh del
  static let removed4 = Capture(
    """
    40000000 | nlmsg_len 64
    1d00 | nlmsg_type RTM_DELNEIGH
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    02 | ndm_family 2
    000000 | ndm_pad1, ndm_pad2
    0a000000 | ndm_ifindex 10
    2000 | ndm_state NUD_FAILED
    00 | ndm_flags 0x0
    01 | ndm_type RTN_UNICAST
    08000100c0000201 | NDA_DST 192.0.2.1
    0800040000000000 | NDA_PROBES 0
    140003005a0000005a0000003c00000000000000 | NDA_CACHEINFO
    """)
}
