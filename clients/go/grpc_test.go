//go:build grpc

package conndial

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	service "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const grpcServer = "203.0.113.9:9000"

func init() {
	worldServices = append(worldServices, func() {
		listener, err := net.Listen("tcp", ":9000")
		if err != nil {
			panic(err)
		}
		server := grpc.NewServer()
		service.RegisterHealthServer(server, health.NewServer())
		go func() { panic(server.Serve(listener)) }()
	})
}

func TestGRPC(t *testing.T) {
	l := newLab(t)
	l.start()
	channel, err := grpc.Dial(grpcServer, grpc.WithInsecure(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return l.dialer.DialContext(ctx, "tcp", address)
		}))
	check(t, err)
	defer channel.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := service.NewHealthClient(channel)
	watch, err := client.Watch(ctx, &service.HealthCheckRequest{})
	check(t, err)
	_, err = watch.Recv()
	check(t, err)
	waitUntil(t, "connd guards the connection", func() bool { return l.statistic("guardedFlows") == 1 })
	l.pullCable()
	if _, err = watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Fatalf("the call ended with %v", err)
	}
	// gRPC makes the next connection by the same function.
	_, err = client.Check(ctx, &service.HealthCheckRequest{}, grpc.WaitForReady(true))
	check(t, err)
	waitUntil(t, "connd guards the next connection", func() bool { return l.statistic("guardedFlows") == 1 })
}
