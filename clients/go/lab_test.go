package conndial

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests run in a network namespace of their own, the machine. They need root or a user
// namespace, and connd's path in CONND (make check-go).
//
// A lab connects the machine with the world, which is a process in a second namespace, by eth0 and
// wlan0. The world has the address 203.0.113.9 with a server that echoes, and one for HTTP.

const (
	roleVariable = "CONNDIAL_TEST_ROLE"
	echoServer   = "203.0.113.9:7000"
	httpServer   = "203.0.113.9:8000"
	// patience is the limit of each wait. No test is about time.
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "machine":
		os.Exit(m.Run())
	case "world":
		serveWorld()
		os.Exit(0)
	}
	if os.Getenv("CONND") == "" {
		os.Exit(m.Run()) // Without connd, most tests are skipped.
	}
	machine := inNamespace("machine", os.Args[1:]...)
	machine.Stdout, machine.Stderr = os.Stdout, os.Stderr
	if err := machine.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inNamespace returns a command that runs this program in a new network namespace.
func inNamespace(role string, arguments ...string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", arguments...)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return command
}

// serveWorld runs the servers, and each line of its input as a command.
func serveWorld() {
	listener, err := net.Listen("tcp", ":7000")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	http.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	go func() { panic(http.ListenAndServe(":8000", nil)) }()
	for _, start := range worldServices {
		start()
	}

	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for lines.Scan() {
		output, err := exec.Command("sh", "-c", lines.Text()).CombinedOutput()
		if err != nil {
			fmt.Printf("%v: %q\n", err, output)
		} else {
			fmt.Println("ok")
		}
	}
}

// worldServices start further servers in the world.
var worldServices []func()

type lab struct {
	t       *testing.T
	dialer  *Dialer
	socket  string
	connd   *exec.Cmd
	world   *exec.Cmd
	input   io.Writer
	answers *bufio.Scanner
	log     synchronizedLog
}

// newLab connects the machine with the world by eth0, the default, and wlan0. It does not start
// connd.
func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("CONND") == "" {
		t.Skip("CONND is not set: make check-go sets it to the path of connd")
	}
	l := &lab{t: t, socket: filepath.Join(t.TempDir(), "connd.sock")}
	l.dialer = &Dialer{Socket: l.socket, Logf: l.log.printf}
	l.world = inNamespace("world")
	l.world.Stderr = os.Stderr
	input, err := l.world.StdinPipe()
	check(t, err)
	output, err := l.world.StdoutPipe()
	check(t, err)
	l.input, l.answers = input, bufio.NewScanner(output)
	check(t, l.world.Start())
	t.Cleanup(func() {
		input.Close()
		_ = l.world.Wait()
	})
	l.expectAnswer("ready")

	l.machine("ip link set lo up")
	for _, link := range []struct{ name, end, address, router, metric string }{
		{"eth0", "cable", "192.0.2.7/24", "192.0.2.1", "100"},
		{"wlan0", "radio", "198.51.100.20/24", "198.51.100.1", "600"},
	} {
		link := link
		l.machine(fmt.Sprintf("ip link add %s type veth peer name %s netns %d", link.name, link.end, l.world.Process.Pid))
		t.Cleanup(func() { l.machine("ip link del " + link.name + " || true") })
		l.outside("ip link set " + link.end + " up && ip address add " + link.router + "/24 dev " + link.end)
		l.machine("ip link set " + link.name + " up && ip address add " + link.address + " dev " + link.name)
		l.machine("ip route add default via " + link.router + " dev " + link.name + " metric " + link.metric)
	}
	l.outside("ip link set lo up && ip address add 203.0.113.9/32 dev lo")
	return l
}

// machine runs a command in the machine.
func (l *lab) machine(command string) {
	l.t.Helper()
	if output, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v: %s", command, err, output)
	}
}

// outside runs a command in the world.
func (l *lab) outside(command string) {
	l.t.Helper()
	fmt.Fprintln(l.input, command)
	l.expectAnswer("ok")
}

func (l *lab) expectAnswer(answer string) {
	l.t.Helper()
	if !l.answers.Scan() || l.answers.Text() != answer {
		l.t.Fatalf("the world said %q instead of %q", l.answers.Text(), answer)
	}
}

// pullCable takes the carrier of eth0 away, and then its route, as a network manager would.
func (l *lab) pullCable() {
	l.t.Helper()
	l.outside("ip link set cable down")
	l.machine("ip route del default dev eth0")
}

// start starts connd, in the machine or by a prefix elsewhere, and returns when it answers.
func (l *lab) start(prefix ...string) {
	l.t.Helper()
	configuration := filepath.Join(filepath.Dir(l.socket), "connd.yaml")
	check(l.t, os.WriteFile(configuration, []byte(
		"links:\n  - {match: eth0, medium: wired}\n  - {match: wlan0, medium: wifi}\n"+
			"grace: {wifi: 1m}\n"), 0o644))
	command := append(prefix, os.Getenv("CONND"), "--config", configuration, "--socket", l.socket)
	l.connd = exec.Command(command[0], command[1:]...)
	l.connd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(l.t, l.connd.Start())
	l.t.Cleanup(l.stop)
	waitUntil(l.t, "connd answers", func() bool {
		_, err := l.connctl("status")
		return err == nil
	})
}

func (l *lab) stop() {
	if l.connd != nil {
		_ = l.connd.Process.Kill()
		_ = l.connd.Wait()
		l.connd = nil
	}
}

func (l *lab) connctl(arguments ...string) (string, error) {
	connctl := filepath.Join(filepath.Dir(os.Getenv("CONND")), "connctl")
	output, err := exec.Command(connctl, append(arguments, "--socket", l.socket)...).Output()
	return string(output), err
}

// dial makes a connection to the world.
func (l *lab) dial() net.Conn {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := l.dialer.DialContext(ctx, "tcp", echoServer)
	check(l.t, err)
	l.t.Cleanup(func() { connection.Close() })
	return connection
}

// dialGuarded makes a connection, and returns when connd guards it.
func (l *lab) dialGuarded() net.Conn {
	l.t.Helper()
	connection := l.dial()
	l.waitGuarded(connection)
	return connection
}

// waitGuarded returns when connd has reported a path for a connection in the present stream.
func (l *lab) waitGuarded(connection net.Conn) {
	l.t.Helper()
	f := connection.(*guardedConn).flow
	waitUntil(l.t, "connd guards the connection", func() bool {
		f.hub.mutex.Lock()
		defer f.hub.mutex.Unlock()
		return f.isSent && f.knownPath != nil
	})
}

func (l *lab) expectEcho(connection net.Conn) {
	l.t.Helper()
	check(l.t, connection.SetDeadline(time.Now().Add(patience)))
	_, err := connection.Write([]byte("hello"))
	check(l.t, err)
	_, err = io.ReadFull(connection, make([]byte, 5))
	check(l.t, err)
	check(l.t, connection.SetDeadline(time.Time{}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitUntil returns when a condition holds.
func waitUntil(t *testing.T, text string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", text)
		}
	}
}

// A synchronizedLog stores messages of several goroutines.
type synchronizedLog struct {
	mutex sync.Mutex
	lines []string
}

func (s *synchronizedLog) printf(format string, arguments ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, arguments...))
}

// count returns the number of messages that contain a text.
func (s *synchronizedLog) count(text string) (count int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, line := range s.lines {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}
