package conndial

import (
	"net"
	"net/netip"
	"os"
)

// A socket is a TCP socket with the data by which the kernel routes its packets. Before it is
// connected, tcp and local are not set.
type socket struct {
	tcp           *net.TCPConn
	local, remote netip.AddrPort
	mark          uint32
	// link is the name of the link that the socket is bound to, or empty.
	link string
	// namespace is the inode of the network namespace, or 0 if it is unknown.
	namespace uint64
	// formerWait is TCP_RTO_MAX_MS before, or 0 if the options that shorten outages are not set.
	formerWait int
}

// systemSocket is the socket of the system's connd.
const systemSocket = "/run/connd/connd.sock"

// socketPath returns the path of connd's socket: the given one, or the default.
func socketPath(path string) string {
	if path != "" {
		return path
	}
	if path := os.Getenv("CONND_SOCKET"); path != "" {
		return path
	}
	if directory := os.Getenv("XDG_RUNTIME_DIR"); directory != "" && os.Geteuid() != 0 {
		if _, err := os.Stat(systemSocket); err != nil {
			return directory + "/connd.sock"
		}
	}
	return systemSocket
}
