import itertools, os, socket, sys, threading
from h2 import connection, events

def varint(number):
    return bytes([number]) if number < 128 else bytes([number % 128 | 128]) + varint(number >> 7)

def field(key, value):
    content = varint(value) if isinstance(value, int) else varint(len(value)) + value
    return varint(key << 3 | 2 * isinstance(value, bytes)) + content

def read_varint(data):
    byte = next(data, None)
    return byte if byte is None or byte < 128 else byte % 128 + (read_varint(data) << 7)

def decode(data):
    data, fields = iter(data), {}
    while (key := read_varint(data)) is not None:
        value = read_varint(data)
        fields[key >> 3] = bytes(itertools.islice(data, value)) if key % 8 == 2 else value
    return fields

server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
(local, local_port), (remote, remote_port) = server.getsockname()[:2], server.getpeername()[:2]
flow = field(1, 1) + field(2, remote.encode()) + field(3, local.encode())
request = field(1, flow + field(10, local_port) + field(11, remote_port) + field(13, 1))
connd, http, received = socket.socket(socket.AF_UNIX), connection.H2Connection(), b""
connd.connect(os.environ.get("CONND_SOCKET", "/run/connd/connd.sock"))
http.initiate_connection()
http.send_headers(1, [(":method", "POST"), (":path", "/connectivity.v1.Connectivity/Guard"),
                      (":scheme", "http"), (":authority", "localhost"),
                      ("te", "trailers"), ("content-type", "application/grpc")])
http.send_data(1, b"\0" + len(request).to_bytes(4, "big") + request)
while not connd.sendall(http.data_to_send()) and (data := connd.recv(65536)):
    received += b"".join(event.data for event in http.receive_data(data)
                         if isinstance(event, events.DataReceived))
    while len(received) >= 5 + (size := int.from_bytes(received[1:5], "big")):
        response, received = decode(received[5:5 + size]), received[5 + size:]
        is_destroyed = decode(response.get(4, b"")).get(2) == 1
        print("guarded" if 3 in response else "destroyed" if is_destroyed else response, flush=True)
        if is_destroyed: sys.exit(server.close())
        if 8 in response:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
            off = threading.Timer(1.5, server.setsockopt, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0))
            off.daemon = True; off.start()
