// Package conndial dials TCP connections that end as soon as their network is gone.
//
// TCP by itself notices a lost network after a quarter of an hour. connd notices it within
// milliseconds. A connection made by [DialContext] is registered with connd. When connd says that
// it is dead, it is closed: reads and writes in progress and later ones fail immediately with an
// error for which errors.Is(err, [ErrInvalidated]) holds. The caller dials again, and the new
// connection uses the network that is available. An attempt to connect that hangs is repeated as
// soon as connd knows another path.
//
// DialContext fits wherever a library takes a function that dials:
//
//	transport := http.DefaultTransport.(*http.Transport).Clone()
//	transport.DialContext = conndial.DialContext
//
//	grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
//		return conndial.DialContext(ctx, "tcp", address)
//	})
//
//	config.DialFunc = conndial.DialContext // pgconn.Config, pgx.ConnConfig
//
// All connections of a process share one stream to connd. Without connd, connections work as usual,
// and are guarded as soon as connd runs. After a restart of connd, they are registered again with
// what connd had reported about them.
//
// These connections are not guarded: Unix sockets, UDP, loopback, Multipath TCP (which survives the
// loss of a network), transparent proxies, and all if connd is in another network namespace.
package conndial

import (
	"context"
	"log"
	"net"
	"net/netip"
	"runtime"
	"time"
)

// A Dialer makes guarded connections. The zero value is ready to use. Its fields must not be
// changed after the first call of DialContext.
type Dialer struct {
	// Net makes the connections. If it is nil, one with a timeout of 30 seconds is used. If it has a
	// ControlContext, attempts to connect are not guarded.
	Net *net.Dialer

	// EndOn is the mildest severity that ends a connection. If it is 0, only Destroy does. With
	// Drain or Advise, connections end that might have recovered.
	EndOn Severity

	// OnInvalidation, if not nil, is called with each report that a connection is dead or in doubt,
	// also if the connection continues. It must not block.
	OnInvalidation func(*Invalidation)

	// OnPath, if not nil, is called with each path that connd reports for a connection: when connd
	// begins to guard it, when its path changes, and when it has recovered from doubt. It must not
	// block.
	OnPath func(*Path)

	// Logf writes messages about connections that are not guarded because connd is wrong, refused
	// them, or is not usable. If it is nil, log.Printf is used. The absence of connd is not logged.
	Logf func(format string, arguments ...any)

	// ShortensOutages has TCP retransmit at least every two seconds while connd reports a satisfied
	// path, so that an outage ends soon after the path is back. It needs Linux 6.15, and a Net with
	// a negative KeepAlive: TCP_USER_TIMEOUT, which is set for it, would replace the number of
	// keepalive probes. It is only for a peer that reads what it gets: if it stops reading for 15
	// minutes, the kernel ends the connection.
	ShortensOutages bool

	// Socket is the path of connd's socket. If it is empty, CONND_SOCKET of the environment is
	// used, or else /run/connd/connd.sock, or $XDG_RUNTIME_DIR/connd.sock if the former does not
	// exist and the user is not root.
	Socket string
}

// A Path is connd's report that it guards a connection.
type Path struct {
	// IsSatisfied is whether packets to the peer have a route and a link that carries traffic.
	IsSatisfied   bool
	Local, Remote netip.AddrPort
}

var defaultDialer Dialer

// DialContext dials as net.Dialer.DialContext does, and guards the attempt and the connection. It
// does not wait for connd.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return defaultDialer.DialContext(ctx, network, address)
}

// DialContext dials as net.Dialer.DialContext does, and guards the attempt and the connection. It
// does not wait for connd.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	h := sharedHub(socketPath(d.Socket))
	connection, err := d.dial(ctx, h, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		return d.guard(h, tcp), nil
	}
	return connection, nil
}

// guard returns the guarded connection, or the connection itself if it must not be guarded.
func (d *Dialer) guard(h *hub, tcp *net.TCPConn) net.Conn {
	s, ok := inspect(tcp)
	if !ok || !h.allows(s.remote) {
		return tcp
	}
	f := &flow{hub: h, dialer: d, socket: s, made: time.Now()}
	connection := &guardedConn{TCPConn: tcp, flow: f}
	// The hub refers to the flow only, so a connection that was never closed can still be collected.
	runtime.SetFinalizer(connection, (*guardedConn).Close)
	h.add(f)
	return connection
}

func (d *Dialer) endsOn(severity Severity) bool {
	return severity <= Destroy || severity <= d.EndOn
}

func (d *Dialer) logf(format string, arguments ...any) {
	if d.Logf != nil {
		d.Logf(format, arguments...)
	} else {
		log.Printf(format, arguments...)
	}
}
