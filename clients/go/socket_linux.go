package conndial

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
)

// Options that package syscall lacks (asm-generic/socket.h, linux/in.h, linux/in6.h).
const (
	soMark          = 36
	soProtocol      = 38
	soBindToIfindex = 62
	ipFreebind      = 15
	ipTransparent   = 19
	ipv6Freebind    = 78
	ipv6Transparent = 75
	tcpUserTimeout  = 18
	tcpRTOMaxMS     = 44 // since Linux 6.15

	maxKeepaliveIdle  = 32767
	protocolMultipath = 262 // IPPROTO_MPTCP
)

// isTrusted reports whether the user that listens on a Unix socket is trusted: root, this user, or
// the owner of the socket's directory, unless the environment of another user may have named it.
func isTrusted(connection *net.UnixConn, path string) (bool, error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return false, err
	}
	var credentials *syscall.Ucred
	failure := raw.Control(func(fd uintptr) {
		credentials, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if failure != nil || err != nil {
		return false, err
	}
	if credentials.Uid == 0 || int(credentials.Uid) == os.Geteuid() {
		return true, nil
	}
	if path != systemSocket && path == socketPath("") {
		return false, nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && status.Uid == credentials.Uid, nil
}

// inspect reads the data of a connected socket. It reports whether the connection may be guarded.
func inspect(tcp *net.TCPConn) (socket, bool) {
	local, isLocal := tcp.LocalAddr().(*net.TCPAddr)
	remote, isRemote := tcp.RemoteAddr().(*net.TCPAddr)
	if !isLocal || !isRemote {
		return socket{}, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return socket{}, false
	}
	s, ok := inspectAttempt(remote.AddrPort(), raw)
	s.tcp, s.local = tcp, plain(local.AddrPort())
	return s, ok && s.local.Addr() != s.remote.Addr()
}

// inspectAttempt reads the data of a socket that is about to be connected.
func inspectAttempt(remote netip.AddrPort, raw syscall.RawConn) (socket, bool) {
	// connect(2) binds a socket to the link of a link-local address.
	s := socket{remote: plain(remote), link: remote.Addr().Zone()}
	isOwn := true
	err := raw.Control(func(fd uintptr) {
		option := func(level, name int) int {
			value, err := syscall.GetsockoptInt(int(fd), level, name)
			if err != nil {
				return 0
			}
			return value
		}
		s.mark = uint32(option(syscall.SOL_SOCKET, soMark))
		if index := option(syscall.SOL_SOCKET, soBindToIfindex); index != 0 {
			if link, err := net.InterfaceByIndex(index); err == nil {
				s.link = link.Name
			}
		}
		// Packets to an address of another machine arrive by rules that connd does not see.
		isForeign := option(syscall.SOL_IP, ipFreebind)|option(syscall.SOL_IP, ipTransparent)|
			option(syscall.SOL_IPV6, ipv6Freebind)|option(syscall.SOL_IPV6, ipv6Transparent) != 0
		isOwn = !isForeign && option(syscall.SOL_SOCKET, soProtocol) != protocolMultipath
	})
	// A thread may be in a network namespace of its own.
	if info, err := os.Stat("/proc/thread-self/ns/net"); err == nil {
		if status, ok := info.Sys().(*syscall.Stat_t); ok {
			s.namespace = status.Ino
		}
	}
	return s, err == nil && isOwn && !s.remote.Addr().IsLoopback()
}

// plain returns an address as connd takes it: without a zone, and as IPv4 if it is mapped to IPv6.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// control calls a function with the descriptor, unless the socket is closed.
func (s *socket) control(f func(fd int)) error {
	raw, err := s.tcp.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// close closes the socket. Its last packets leave by the link of the connection's first path, or
// not at all, because their source address would be wrong on another link.
func (s *socket) close(link int) {
	_ = s.control(func(fd int) {
		if link == 0 || syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soBindToIfindex, link) != nil {
			_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_DONTROUTE, 1)
		}
	})
	_ = s.tcp.Close()
}
