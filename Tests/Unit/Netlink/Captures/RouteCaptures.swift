/// Route, rule and nexthop messages of Linux 6.1 and 6.18.
enum RouteCaptures {
  /// A default route over a link that needs no gateway.
  static let defaultRoute4 = Capture(
    """
    2c000000 | nlmsg_len 44
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    4fb5006bb2010000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    00 | rtm_dst_len 0
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    03fd | rtm_protocol 3, rtm_scope 253
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    080004000b000000 | RTA_OIF 11
    """)

  /// A default route with a gateway.
  static let defaultRouteByGateway4 = Capture(
    """
    34000000 | nlmsg_len 52
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    5ab5006b3d020000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    00 | rtm_dst_len 0
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    0800050064400101 | RTA_GATEWAY 100.64.1.1
    080004000f000000 | RTA_OIF 15
    """)

  /// fe80::/64.
  static let linkLocalRoute6 = Capture(
    """
    74000000 | nlmsg_len 116
    1800 | nlmsg_type RTM_NEWROUTE
    0004 | nlmsg_flags 0x400
    0000000000000000 | nlmsg_seq, nlmsg_pid
    0a | rtm_family 10
    40 | rtm_dst_len 64
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0200 | rtm_protocol 2, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    14000100fe800000000000000000000000000000 | RTA_DST fe80::
    0800060000010000 | RTA_PRIORITY 256
    080004000b000000 | RTA_OIF 11
    24000c000000000000000000000000000000000000000000000000000000000000000000 | RTA_CACHEINFO
    0500140000000000 | RTA_PREF 0
    """)

  /// The same route is removed.
  static let routeRemoved6 = Capture(
    """
    74000000 | nlmsg_len 116
    1900 | nlmsg_type RTM_DELROUTE
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    0a | rtm_family 10
    40 | rtm_dst_len 64
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0200 | rtm_protocol 2, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    14000100fe800000000000000000000000000000 | RTA_DST fe80::
    0800060000010000 | RTA_PRIORITY 256
    080004000b000000 | RTA_OIF 11
    24000c000000000000000000000000000000000000000000000000000000000000000000 | RTA_CACHEINFO
    0500140000000000 | RTA_PREF 0
    """)

  /// A local address's route in table 255 is removed.
  static let routeRemoved4 = Capture(
    """
    3c000000 | nlmsg_len 60
    1900 | nlmsg_type RTM_DELROUTE
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    20 | rtm_dst_len 32
    0000 | rtm_src_len, rtm_tos
    ff | rtm_table 255
    02fe | rtm_protocol 2, rtm_scope 254
    02 | rtm_type 2
    00000000 | rtm_flags
    08000f00ff000000 | RTA_TABLE 255
    0800010064400005 | RTA_DST 100.64.0.5
    0800070064400005 | RTA_PREFSRC 100.64.0.5
    080004000b000000 | RTA_OIF 11
    """)

  /// A default route of table 1000 that replaced another: NLM_F_REPLACE, and no removal.
  static let routeReplaced4 = Capture(
    """
    3c000000 | nlmsg_len 60
    1800 | nlmsg_type RTM_NEWROUTE
    0001 | nlmsg_flags 0x100
    b816016b6c020000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    00 | rtm_dst_len 0
    0000 | rtm_src_len, rtm_tos
    fc | rtm_table 252
    0300 | rtm_protocol 3, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00e8030000 | RTA_TABLE 1000
    0800060064000000 | RTA_PRIORITY 100
    08000500c0000209 | RTA_GATEWAY 192.0.2.9
    0800040003000000 | RTA_OIF 3
    """)

  /// A route with a nexthop object.
  static let routeByNexthop4 = Capture(
    """
    44000000 | nlmsg_len 68
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    b816016b62020000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    18 | rtm_dst_len 24
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    08000100c6336400 | RTA_DST 198.51.100.0
    08001e0007000000 | RTA_NH_ID 7
    08000500c0000201 | RTA_GATEWAY 192.0.2.1
    0800040003000000 | RTA_OIF 3
    """)

  /// A route with two next hops.
  static let routeByTwo4 = Capture(
    """
    50000000 | nlmsg_len 80
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    b816016b66020000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    18 | rtm_dst_len 24
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    08000100cb007100 | RTA_DST 203.0.113.0
    24000900100000000300000008000500c0000201100000010300000008000500c0000209 | RTA_MULTIPATH
    """)

  /// RFC 5549: an IPv4 route with an IPv6 gateway.
  static let routeByIPv6Gateway4 = Capture(
    """
    4c000000 | nlmsg_len 76
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    2d17016bcf080000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    10 | rtm_dst_len 16
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    01 | rtm_type 1
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    080001000a050000 | RTA_DST 10.5.0.0
    160012000a0020010db80000000000000000000000010000 | RTA_VIA 2001:db8::1
    0800040003000000 | RTA_OIF 3
    """)

  /// An IPv6 route that discards, with the loopback link.
  static let unreachableRoute6 = Capture(
    """
    74000000 | nlmsg_len 116
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    b816016b6e020000 | nlmsg_seq, nlmsg_pid
    0a | rtm_family 10
    30 | rtm_dst_len 48
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    07 | rtm_type 7
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    1400010020010db8000100000000000000000000 | RTA_DST 2001:db8:1::
    0800060000040000 | RTA_PRIORITY 1024
    0800040001000000 | RTA_OIF 1
    24000c000000000000000000000000000000000000000000000000000000000000000000 | RTA_CACHEINFO
    0500140000000000 | RTA_PREF 0
    """)

  /// An IPv4 route that discards.
  static let blackholeRoute4 = Capture(
    """
    2c000000 | nlmsg_len 44
    1800 | nlmsg_type RTM_NEWROUTE
    0006 | nlmsg_flags 0x600
    b816016b70020000 | nlmsg_seq, nlmsg_pid
    02 | rtm_family 2
    08 | rtm_dst_len 8
    0000 | rtm_src_len, rtm_tos
    fe | rtm_table 254
    0300 | rtm_protocol 3, rtm_scope 0
    06 | rtm_type 6
    00000000 | rtm_flags
    08000f00fe000000 | RTA_TABLE 254
    080001000a000000 | RTA_DST 10.0.0.0
    """)

  /// ip rule add fwmark 0xca6c lookup 51820 priority 100
  static let rule4 = Capture(
    """
    4c000000 | nlmsg_len 76
    2000 | nlmsg_type RTM_NEWRULE
    0000 | nlmsg_flags 0x0
    b816016b5a020000 | nlmsg_seq, nlmsg_pid
    02 | family 2
    000000 | dst_len, src_len, tos
    fc | table 252
    0000 | reserved
    01 | action 1
    00000000 | flags 0x0
    08000f006cca0000 | FRA_TABLE 51820
    08000e00ffffffff | FRA_SUPPRESS_PREFIXLEN -1
    0500150000000000 | FRA_PROTOCOL 0
    0800060064000000 | FRA_PRIORITY 100
    08000a006cca0000 | FRA_FWMARK 0xca6c
    08001000ffffffff | FRA_FWMASK 0xffffffff
    """)

  /// ip rule del priority 100
  static let ruleRemoved4 = Capture(
    """
    4c000000 | nlmsg_len 76
    2100 | nlmsg_type RTM_DELRULE
    0000 | nlmsg_flags 0x0
    b816016b5c020000 | nlmsg_seq, nlmsg_pid
    02 | family 2
    000000 | dst_len, src_len, tos
    fc | table 252
    0000 | reserved
    01 | action 1
    00000000 | flags 0x0
    08000f006cca0000 | FRA_TABLE 51820
    08000e00ffffffff | FRA_SUPPRESS_PREFIXLEN -1
    0500150000000000 | FRA_PROTOCOL 0
    0800060064000000 | FRA_PRIORITY 100
    08000a006cca0000 | FRA_FWMARK 0xca6c
    08001000ffffffff | FRA_FWMASK 0xffffffff
    """)

  /// ip -6 rule add not fwmark 0xca6c lookup 51820 priority 101
  static let rule6 = Capture(
    """
    4c000000 | nlmsg_len 76
    2000 | nlmsg_type RTM_NEWRULE
    0000 | nlmsg_flags 0x0
    b816016b5e020000 | nlmsg_seq, nlmsg_pid
    0a | family 10
    000000 | dst_len, src_len, tos
    fc | table 252
    0000 | reserved
    01 | action 1
    02000000 | flags 0x2
    08000f006cca0000 | FRA_TABLE 51820
    08000e00ffffffff | FRA_SUPPRESS_PREFIXLEN -1
    0500150000000000 | FRA_PROTOCOL 0
    0800060065000000 | FRA_PRIORITY 101
    08000a006cca0000 | FRA_FWMARK 0xca6c
    08001000ffffffff | FRA_FWMASK 0xffffffff
    """)

  /// ip nexthop add id 7 via 192.0.2.1 dev ve0
  static let nexthop = Capture(
    """
    30000000 | nlmsg_len 48
    6800 | nlmsg_type RTM_NEWNEXTHOP
    0506 | nlmsg_flags 0x605
    b816016b60020000 | nlmsg_seq, nlmsg_pid
    02 | nh_family 2
    fd0000 | nh_scope, nh_protocol, reserved
    00000000 | nh_flags
    0800010007000000 | NHA_ID 7
    0800050003000000 | NHA_OIF 3
    08000600c0000201 | NHA_GATEWAY 192.0.2.1
    """)

  /// ip nexthop del id 7
  static let nexthopRemoved = Capture(
    """
    30000000 | nlmsg_len 48
    6900 | nlmsg_type RTM_DELNEXTHOP
    0500 | nlmsg_flags 0x5
    b816016b64020000 | nlmsg_seq, nlmsg_pid
    02 | nh_family 2
    fd0000 | nh_scope, nh_protocol, reserved
    00000000 | nh_flags
    0800010007000000 | NHA_ID 7
    0800050003000000 | NHA_OIF 3
    08000600c0000201 | NHA_GATEWAY 192.0.2.1
    """)
}
