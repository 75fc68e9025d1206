/// Address messages of Linux 6.1 and 6.18.
enum AddressCaptures {
  /// An address on a modem's link, which is not a secondary one.
  static let address4 = Capture(
    """
    50000000 | nlmsg_len 80
    1400 | nlmsg_type RTM_NEWADDR
    0000 | nlmsg_flags 0x0
    4fb5006bb1010000 | nlmsg_seq, nlmsg_pid
    02 | ifa_family 2
    1e | ifa_prefixlen 30
    80 | ifa_flags 0x80
    00 | ifa_scope 0
    0b000000 | ifa_index 11
    0800010064400005 | IFA_ADDRESS 100.64.0.5
    0800020064400005 | IFA_LOCAL 100.64.0.5
    0a0003007777616e30000000 | IFA_LABEL "wwan0"
    0800080080000000 | IFA_FLAGS 0x80
    14000600ffffffffffffffffb80b0000b80b0000 | IFA_CACHEINFO
    """)

  /// The same address is removed.
  static let addressRemoved4 = Capture(
    """
    50000000 | nlmsg_len 80
    1500 | nlmsg_type RTM_DELADDR
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    02 | ifa_family 2
    1e | ifa_prefixlen 30
    80 | ifa_flags 0x80
    00 | ifa_scope 0
    0b000000 | ifa_index 11
    0800010064400005 | IFA_ADDRESS 100.64.0.5
    0800020064400005 | IFA_LOCAL 100.64.0.5
    0a0003007777616e30000000 | IFA_LABEL "wwan0"
    0800080080000000 | IFA_FLAGS 0x80
    14000600ffffffffffffffffb80b0000b80b0000 | IFA_CACHEINFO
    """)

  /// A link-local address with a stable private identifier.
  static let address6 = Capture(
    """
    50000000 | nlmsg_len 80
    1400 | nlmsg_type RTM_NEWADDR
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    0a | ifa_family 10
    40 | ifa_prefixlen 64
    80 | ifa_flags 0x80
    fd | ifa_scope 253
    0b000000 | ifa_index 11
    14000100fe8000000000000097d2d4d9ffac75b8 | IFA_ADDRESS fe80::97d2:d4d9:ffac:75b8
    14000600ffffffffffffffffb30b0000b30b0000 | IFA_CACHEINFO
    0800080080080000 | IFA_FLAGS 0x880
    05000b0003000000 | IFA_PROTO 3
    """)

  /// The same address is removed.
  static let addressRemoved6 = Capture(
    """
    50000000 | nlmsg_len 80
    1500 | nlmsg_type RTM_DELADDR
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    0a | ifa_family 10
    40 | ifa_prefixlen 64
    80 | ifa_flags 0x80
    fd | ifa_scope 253
    0b000000 | ifa_index 11
    14000100fe8000000000000097d2d4d9ffac75b8 | IFA_ADDRESS fe80::97d2:d4d9:ffac:75b8
    14000600ffffffffffffffffb30b0000b30b0000 | IFA_CACHEINFO
    0800080080080000 | IFA_FLAGS 0x880
    05000b0003000000 | IFA_PROTO 3
    """)

  /// An address whose uniqueness is still being checked.
  static let addressTentative6 = Capture(
    """
    48000000 | nlmsg_len 72
    1400 | nlmsg_type RTM_NEWADDR
    0000 | nlmsg_flags 0x0
    0000000000000000 | nlmsg_seq, nlmsg_pid
    0a | ifa_family 10
    40 | ifa_prefixlen 64
    c0 | ifa_flags 0xc0
    00 | ifa_scope 0
    03000000 | ifa_index 3
    1400010020010db8000000000000000000000002 | IFA_ADDRESS 2001:db8::2
    14000600ffffffffffffffff70bc030070bc0300 | IFA_CACHEINFO
    08000800c0000000 | IFA_FLAGS 0xc0
    """)
}
