package conndial

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// These tests use a real connd and real connections.

// expectEnded waits until a read fails because connd has ended the connection, and checks that
// everything fails the same way from then on.
func expectEnded(t *testing.T, connection net.Conn, reason Reason) {
	t.Helper()
	_ = connection.SetReadDeadline(time.Now().Add(patience)) // It may have ended already.
	_, err := connection.Read(make([]byte, 1))
	var invalidation *Invalidation
	if !errors.Is(err, ErrInvalidated) || !errors.Is(err, syscall.ECONNABORTED) || !errors.As(err, &invalidation) {
		t.Fatalf("the read failed with %v", err)
	}
	if invalidation.Reason != reason || invalidation.Severity != Destroy {
		t.Fatalf("the reason is %v, %v", invalidation.Severity, invalidation.Reason)
	}
	var operation *net.OpError
	if !errors.As(err, &operation) || operation.Op != "read" || operation.Timeout() {
		t.Fatalf("%#v is not the error of a read", err)
	}
	if _, err := connection.Write([]byte("x")); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the write failed with %v", err)
	}
	if _, err := io.Copy(connection, strings.NewReader("x")); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the copy to the connection failed with %v", err)
	}
	if _, err := io.Copy(io.Discard, connection); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the copy from the connection failed with %v", err)
	}
	if err := connection.SetDeadline(time.Time{}); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the deadline failed with %v", err)
	}
	if err := connection.Close(); err != nil {
		t.Fatalf("Close failed with %v", err)
	}
}

func TestCablePulled(t *testing.T) {
	l := newLab(t)
	l.start()
	connection := l.dialGuarded()
	l.expectEcho(connection)
	begin := time.Now()
	l.outside("ip link set cable down")
	expectEnded(t, connection, InterfaceLost)
	t.Logf("the read failed after %v", time.Since(begin))

	l.machine("ip route del default dev eth0")
	next := l.dialGuarded()
	if local := next.LocalAddr().String(); !strings.HasPrefix(local, "198.51.100.20:") {
		t.Fatalf("the next connection has the address %s", local)
	}
	l.expectEcho(next)
}

func TestAttemptHangs(t *testing.T) {
	l := newLab(t)
	l.start()
	l.outside("ip link set cable down")
	waitUntil(t, "the cable is pulled", func() bool {
		_, err := l.connctl("is", "online")
		return err != nil
	})
	made := make(chan net.Conn, 1)
	go func() { made <- l.dial() }()
	h := sharedHub(l.socket)
	waitUntil(t, "connd guards the attempt", func() bool {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		for _, f := range h.flows {
			return f.attempt != nil && f.knownPath != nil
		}
		return false
	})
	// The attempt began by a route that still stood.
	l.machine("ip route del default dev eth0")
	connection := <-made
	if local := connection.LocalAddr().String(); !strings.HasPrefix(local, "198.51.100.20:") {
		t.Fatalf("the connection has the address %s", local)
	}
	l.expectEcho(connection)
}

func TestBlockedWriter(t *testing.T) {
	l := newLab(t)
	l.start()
	connection := l.dialGuarded()
	// The peer's answers fill both buffers, because nothing is read here.
	failure := make(chan error, 1)
	go func() {
		for {
			if _, err := connection.Write(make([]byte, 1<<20)); err != nil {
				failure <- err
				return
			}
		}
	}()
	l.pullCable()
	if err := <-failure; !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the write failed with %v", err)
	}
}

func TestRestart(t *testing.T) {
	l := newLab(t)
	l.start()
	first, second := l.dialGuarded(), l.dialGuarded()
	l.stop()
	l.expectEcho(first)
	l.start()
	l.waitGuarded(first)
	l.expectEcho(first)
	l.stop()
	// The path that connd had reported shows what happened while it was away.
	l.pullCable()
	l.start()
	expectEnded(t, first, InterfaceLost)
	expectEnded(t, second, InterfaceLost)
	l.expectEcho(l.dialGuarded())
}

func TestWithoutConnd(t *testing.T) {
	l := newLab(t)
	connection := l.dial()
	l.expectEcho(connection)
	l.start()
	l.waitGuarded(connection)
	if len(l.log.lines) != 0 {
		t.Fatalf("the log has %q", l.log.lines)
	}
	l.pullCable()
	expectEnded(t, connection, InterfaceLost)
}

func TestOtherNamespace(t *testing.T) {
	l := newLab(t)
	l.outside("sleep 1000 >/dev/null 2>&1 & echo $! >" + l.socket + ".pid")
	pid, err := os.ReadFile(l.socket + ".pid")
	check(t, err)
	t.Cleanup(func() { l.outside("kill " + strings.TrimSpace(string(pid))) })
	l.start("nsenter", "--net=/proc/"+strings.TrimSpace(string(pid))+"/ns/net")
	connection := l.dial()
	waitUntil(t, "the other namespace is noticed", func() bool {
		return l.log.count("another network namespace") == 1
	})
	waitUntil(t, "connd guards no connection", func() bool { return l.statistic("guardedFlows") == 0 })
	l.expectEcho(connection)

	// A connd in this namespace guards it again.
	l.stop()
	l.start()
	l.waitGuarded(connection)
}

func TestThreeRefutations(t *testing.T) {
	l := newLab(t)
	// connd cannot know that this service is routed by a table of its own.
	l.machine("ip route add default via 192.0.2.1 dev eth0 table 100")
	l.machine("ip rule add tos 0x10 lookup 100")
	t.Cleanup(func() { l.machine("ip rule del tos 0x10 lookup 100; ip route flush table 100") })
	for _, link := range []string{"eth0", "wlan0"} {
		l.machine("ip route del default dev " + link)
	}
	l.dialer.Net = &net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failure := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_TOS, 0x10)
		})
		if err == nil {
			err = failure
		}
		return err
	}}
	l.start()
	for i := 0; i < 3; i++ {
		expectEnded(t, l.dial(), InterfaceLost)
	}
	fourth := l.dial()
	if _, isGuarded := fourth.(*guardedConn); isGuarded {
		t.Fatal("the fourth connection is guarded")
	}
	l.expectEcho(fourth)
	if count := l.log.count("connd wrongly rejects new connections to " + echoServer); count != 1 {
		t.Fatalf("the log has %q", l.log.lines)
	}
}

func TestAsked(t *testing.T) {
	l := newLab(t)
	l.start()
	connection := l.dialGuarded()
	idle := func() (value int) {
		f := connection.(*guardedConn).flow
		_ = f.socket.control(func(fd int) {
			value, _ = syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		})
		return value
	}
	before := idle()
	// connd asks about an idle connection that a change touches (E2).
	l.machine("ip route change default via 192.0.2.1 dev eth0 metric 100 mtu 1400")
	waitUntil(t, "a probe is sent", func() bool { return idle() == 1 })
	waitUntil(t, "the options are as before", func() bool { return idle() == before })
	l.expectEcho(connection)
}

// Outages are shortened while the path is satisfied, unless the connection has keepalive (C11).
func TestTimeouts(t *testing.T) {
	l := newLab(t)
	l.start()
	dial := func(keepAlive time.Duration, shortens bool) func() [2]int {
		l.dialer = &Dialer{
			Net: &net.Dialer{KeepAlive: keepAlive}, ShortensOutages: shortens,
			Socket: l.socket, Logf: l.log.printf,
		}
		connection := l.dialGuarded()
		f := connection.(*guardedConn).flow
		return func() (values [2]int) {
			_ = f.socket.control(func(fd int) {
				values[0], _ = syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout)
				values[1], _ = syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMaxMS)
			})
			return values
		}
	}
	defaults := dial(-1, false)()
	if defaults[1] == 0 {
		t.Skip("the kernel is older than Linux 6.15")
	}
	if values := dial(0, true)(); values != defaults {
		t.Fatalf("a connection with keepalive has the timeouts %v", values)
	}
	shortened := dial(-1, true)
	if values := shortened(); values != [2]int{userTimeout, maxWait} {
		t.Fatalf("the timeouts are %v", values)
	}
	l.stop()
	waitUntil(t, "the timeouts are as before", func() bool { return shortened() == defaults })
}

func TestAdvice(t *testing.T) {
	l := newLab(t)
	l.machine("ip route del default dev eth0")
	var advices atomic.Int32
	l.dialer.OnInvalidation = func(i *Invalidation) {
		if i.Severity == Advise {
			advices.Add(1)
		}
	}
	l.start()
	var paths atomic.Int32
	l.dialer.OnPath = func(p *Path) {
		if p.IsSatisfied && p.Remote.String() == echoServer {
			paths.Add(1)
		}
	}
	patient := l.dialGuarded()
	l.expectEcho(patient)
	waitUntil(t, "the path is reported", func() bool { return paths.Load() == 1 })
	l.dialer = &Dialer{Socket: l.socket, Logf: l.log.printf, EndOn: Advise}
	anxious := l.dialGuarded()
	l.expectEcho(anxious)
	// A Wi-Fi may return within its grace period.
	l.outside("ip link set radio down")
	_ = anxious.SetReadDeadline(time.Now().Add(patience)) // It may have ended already.
	if _, err := anxious.Read(make([]byte, 1)); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the read failed with %v", err)
	}
	l.outside("ip link set radio up")
	waitUntil(t, "there was advice", func() bool { return advices.Load() > 0 })
	waitUntil(t, "the recovery is reported", func() bool { return paths.Load() > 1 })
	l.expectEcho(patient)
}

func TestUnguarded(t *testing.T) {
	l := newLab(t)
	l.start()
	listener, err := net.Listen("tcp", ":0")
	check(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	for _, address := range []string{"127.0.0.1:" + port, "[::1]:" + port, "192.0.2.7:" + port} {
		connection, err := l.dialer.DialContext(context.Background(), "tcp", address)
		check(t, err)
		if _, isGuarded := connection.(*guardedConn); isGuarded {
			t.Errorf("%s is guarded", address)
		}
		connection.Close()
	}
	for network, address := range map[string]string{"unix": l.socket, "udp": echoServer} {
		connection, err := l.dialer.DialContext(context.Background(), network, address)
		check(t, err)
		connection.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.dialer.DialContext(ctx, "tcp", echoServer); err == nil {
		t.Error("a cancelled dial succeeded")
	}
}

func TestThousandConnections(t *testing.T) {
	l := newLab(t)
	l.start()
	connections := make([]net.Conn, 1000)
	for i := range connections {
		connections[i] = l.dial()
	}
	for _, connection := range connections {
		l.waitGuarded(connection)
	}
	if flows, clients := l.statistic("guardedFlows"), l.statistic("guardingClients"); flows != 1000 || clients != 1 {
		t.Fatalf("connd guards %d flows for %d clients", flows, clients)
	}
	for _, connection := range connections[500:] {
		connection.Close()
	}
	waitUntil(t, "closed connections are removed", func() bool { return l.statistic("guardedFlows") == 500 })
	begin := time.Now()
	l.pullCable()
	for _, connection := range connections[:500] {
		expectEnded(t, connection, InterfaceLost)
	}
	t.Logf("all 500 ended after %v", time.Since(begin))
	waitUntil(t, "the stream ends", func() bool { return l.statistic("guardingClients") == 0 })
}

// statistic returns a figure of connctl stats.
func (l *lab) statistic(name string) int {
	l.t.Helper()
	output, err := l.connctl("stats", "--json")
	check(l.t, err)
	var figures map[string]any
	check(l.t, json.Unmarshal([]byte(output), &figures))
	return int(figures[name].(float64))
}

func TestForgottenConnection(t *testing.T) {
	l := newLab(t)
	l.start()
	func() {
		connection, err := l.dialer.DialContext(context.Background(), "tcp", echoServer)
		check(t, err)
		l.waitGuarded(connection)
		runtime.KeepAlive(connection)
	}()
	waitUntil(t, "a connection that was never closed is collected", func() bool {
		runtime.GC()
		return sharedHub(l.socket).isEmpty()
	})
}

func TestHTTP(t *testing.T) {
	l := newLab(t)
	l.start()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = l.dialer.DialContext
	client := &http.Client{Transport: transport}
	response, err := client.Get("http://" + httpServer + "/hang")
	check(t, err)
	defer response.Body.Close()
	waitUntil(t, "connd guards the connection", func() bool { return l.statistic("guardedFlows") == 1 })
	l.pullCable()
	if _, err := io.ReadAll(response.Body); !errors.Is(err, ErrInvalidated) {
		t.Fatalf("the body ended with %v", err)
	}
	response, err = client.Get("http://" + httpServer + "/")
	check(t, err)
	response.Body.Close()
}
