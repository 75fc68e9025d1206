// A program with connections that clients/go guards. Reads commands, a line each, and prints events.
// See driver.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"connd.org/conndial"
)

// numbers has the numbers of connections. While a connection is made, reports wait.
var numbers = struct {
	sync.Mutex
	ofLocal map[netip.AddrPort]string
}{ofLocal: map[netip.AddrPort]string{}}

var connections = map[string]net.Conn{}

func report(kind string, local netip.AddrPort, words ...any) {
	numbers.Lock()
	defer numbers.Unlock()
	fmt.Println(append([]any{kind, numbers.ofLocal[local]}, words...)...)
}

// The words of driver.py.
var reasons = map[conndial.Reason]string{
	conndial.SourceAddressLost: "sourceAddressLost", conndial.InterfaceLost: "interfaceLost",
	conndial.NetworkChanged: "networkChanged", conndial.BetterPath: "betterPath", conndial.Policy: "policy",
	conndial.Resumed: "resumed", conndial.Silent: "silent",
}

var dialer = conndial.Dialer{
	// Go would switch keepalive on, which hides whether connd asks.
	Net:    &net.Dialer{Timeout: 30 * time.Second, KeepAlive: -1},
	OnPath: func(p *conndial.Path) { report("path", p.Local) },
	OnInvalidation: func(i *conndial.Invalidation) {
		report(i.Severity.String(), i.Local, reasons[i.Reason])
	},
	Logf: func(format string, arguments ...any) {
		text := fmt.Sprintf(format, arguments...)
		fmt.Fprintln(os.Stderr, text)
		if _, rest, ok := strings.Cut(text, "(from "); ok {
			local, _, _ := strings.Cut(rest, ": ")
			report("suspended", netip.MustParseAddrPort(local))
		}
	},
}

func connect(number, address, port string) {
	numbers.Lock()
	defer numbers.Unlock()
	connection, err := dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(address, port))
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	connections[number] = connection
	local := netip.MustParseAddrPort(connection.LocalAddr().String())
	numbers.ofLocal[local] = number
	fmt.Println("open", number)
	go read(number, connection)
}

// read reads a connection to its end.
func read(number string, connection net.Conn) {
	bytes := make([]byte, 4096)
	for {
		_, err := connection.Read(bytes)
		switch {
		case err == nil:
			fmt.Println("echoed", number)
			continue
		case errors.Is(err, io.EOF):
			fmt.Println("ended", number, "EOF")
		case errors.Is(err, conndial.ErrInvalidated), errors.Is(err, syscall.ECONNRESET):
			fmt.Println("ended", number, "reset")
		case !errors.Is(err, net.ErrClosed):
			fmt.Println("ended", number, err)
		}
		_ = connection.Close()
		return
	}
}

func main() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "connect":
			connect(words[1], words[2], words[3])
		case "echo":
			_, _ = connections[words[1]].Write([]byte("x"))
		case "close":
			_ = connections[words[1]].Close()
			fmt.Println("closed", words[1])
		}
	}
}
