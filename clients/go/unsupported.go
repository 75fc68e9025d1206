//go:build !linux

package conndial

import (
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// connd runs on Linux only. On other systems, connections are not guarded.
func inspect(*net.TCPConn) (socket, bool) { return socket{}, false }

func inspectAttempt(netip.AddrPort, syscall.RawConn) (socket, bool) { return socket{}, false }

func isTrusted(*net.UnixConn, string) (bool, error) { return false, nil }

func (s *socket) close(int) { _ = s.tcp.Close() }

func (s *socket) ask(*atomic.Bool) {}

func (s *socket) note(response) {}

func (s *socket) restore() {}
