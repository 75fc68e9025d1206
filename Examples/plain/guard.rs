use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::io::AsRawFd;
use std::os::unix::net::UnixStream;
use std::{collections::HashMap, env, thread, time::Duration};

const HEADERS: &[u8] = b"\x83\x86\x04\x23/connectivity.v1.Connectivity/Guard\x01\x09localhost\
    \x0f\x10\x10application/grpc\x00\x02te\x08trailers";

enum Value<'a> { Number(u64), Bytes(&'a [u8]) }

extern "C" {
    fn setsockopt(socket: i32, level: i32, name: i32, value: *const i32, size: u32) -> i32;
}

fn set(socket: &TcpStream, level: i32, name: i32, value: i32) {
    unsafe { setsockopt(socket.as_raw_fd(), level, name, &value, 4) };
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number > 127 { to.push(number as u8 | 128); number >>= 7; }
    to.push(number as u8);
}

fn field(to: &mut Vec<u8>, key: u64, value: Value) {
    match value {
        Value::Number(number) => { varint(to, key << 3); varint(to, number); }
        Value::Bytes(bytes) => { varint(to, key << 3 | 2); varint(to, bytes.len() as u64); to.extend(bytes); }
    }
}

fn read_varint(from: &mut &[u8]) -> Option<u64> {
    let (&octet, rest) = from.split_first()?;
    *from = rest;
    if octet < 128 { Some(octet.into()) } else { Some(octet as u64 & 127 | read_varint(from)? << 7) }
}

/// Returns the fields of a message, or None if it is malformed.
fn decode(mut from: &[u8]) -> Option<HashMap<u64, Value<'_>>> {
    let mut fields = HashMap::new();
    while !from.is_empty() {
        let (key, value) = (read_varint(&mut from)?, read_varint(&mut from)?);
        if key % 8 != 2 { fields.insert(key >> 3, Value::Number(value)); continue; }
        fields.insert(key >> 3, Value::Bytes(from.get(..value as usize)?));
        from = &from[value as usize..];
    }
    Some(fields)
}

fn frame(to: &mut UnixStream, kind: u8, flags: u8, stream: u32, body: &[u8]) -> std::io::Result<()> {
    let head = (body.len() as u32) << 8 | kind as u32;
    to.write_all(&[&head.to_be_bytes()[..], &[flags], &stream.to_be_bytes(), body].concat())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().collect();
    let server = TcpStream::connect((&*arguments[1], arguments[2].parse::<u16>()?))?;
    let (local, remote) = (server.local_addr()?, server.peer_addr()?);
    let (mut flow, mut request) = (vec![], vec![]);
    field(&mut flow, 1, Value::Number(1));
    field(&mut flow, 2, Value::Bytes(remote.ip().to_string().as_bytes()));
    field(&mut flow, 3, Value::Bytes(local.ip().to_string().as_bytes()));
    for (key, value) in [(10, local.port()), (11, remote.port()), (13, 1)] {
        field(&mut flow, key, Value::Number(value.into()));
    }
    field(&mut request, 1, Value::Bytes(&flow));
    let message = [&[0], &(request.len() as u32).to_be_bytes()[..], &request].concat();
    let path = env::var("CONND_SOCKET").unwrap_or("/run/connd/connd.sock".into());
    let mut connd = UnixStream::connect(path)?;
    connd.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
    frame(&mut connd, 4, 0, 0, &[])?;
    frame(&mut connd, 1, 4, 1, HEADERS)?;
    frame(&mut connd, 0, 0, 1, &message)?;
    let mut received = vec![];
    loop {
        let mut head = [0; 9];
        connd.read_exact(&mut head)?;
        let mut body = vec![0; (head[0] as usize) << 16 | (head[1] as usize) << 8 | head[2] as usize];
        connd.read_exact(&mut body)?;
        match head[3] {
            4 | 6 if head[4] == 0 => frame(&mut connd, head[3], 1, 0, if head[3] == 6 { &body } else { &[] })?,
            3 | 7 => return Err("connd ended the stream".into()),
            0 if !body.is_empty() => {
                for stream in [0, 1] { frame(&mut connd, 8, 0, stream, &(body.len() as u32).to_be_bytes())?; }
                received.extend(body);
            }
            _ => {}
        }
        while received.len() >= 5 {
            let end = 5 + u32::from_be_bytes(received[1..5].try_into()?) as usize;
            if received.len() < end { break; }
            let response = decode(&received[5..end]).ok_or("connd sent a malformed message")?;
            let mut severity = 0;
            if let Some(Value::Bytes(invalidation)) = response.get(&4) {
                if let Some(Value::Number(number)) = decode(invalidation).ok_or("malformed")?.get(&2) { severity = *number; }
            }
            println!("{}", if response.contains_key(&3) { "guarded" } else if severity == 1 { "destroyed" } else { "in doubt" });
            if severity == 1 { return Ok(server.shutdown(std::net::Shutdown::Both)?); }
            if response.contains_key(&8) {
                set(&server, 1, 9, 1); // SOL_SOCKET, SO_KEEPALIVE
                set(&server, 6, 4, 1); // IPPROTO_TCP, TCP_KEEPIDLE
                let asked = server.try_clone()?;
                thread::spawn(move || { thread::sleep(Duration::from_millis(1500)); set(&asked, 1, 9, 0); });
            }
            received.drain(..end);
        }
    }
}
