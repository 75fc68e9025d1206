const http2 = require('node:http2'), net = require('node:net')

const varint = n => n < 128 ? [n] : [n % 128 | 128, ...varint(Math.floor(n / 128))]
const field = (key, value) => typeof value === 'number'
  ? [...varint(key << 3), ...varint(value)]
  : [...varint(key << 3 | 2), ...varint(value.length), ...Buffer.from(value)]

function decode(data) {
  const fields = {}
  let at = 0
  const number = () => data[at] < 128 ? data[at++] : data[at++] % 128 + 128 * number()
  while (at < data.length) {
    const key = number(), value = number()
    fields[key >> 3] = key % 8 === 2 ? data.subarray(at, at += value) : value
  }
  return fields
}

const server = net.connect({ host: process.argv[2], port: process.argv[3] }, () => {
  const flow = [...field(1, 1), ...field(2, server.remoteAddress), ...field(3, server.localAddress),
    ...field(10, server.localPort), ...field(11, server.remotePort), ...field(13, 1)]
  const request = field(1, flow), path = process.env.CONND_SOCKET || '/run/connd/connd.sock'
  const connd = http2.connect('http://localhost', { createConnection: () => net.connect(path) })
  const guard = connd.request({ ':method': 'POST', ':path': '/connectivity.v1.Connectivity/Guard',
    te: 'trailers', 'content-type': 'application/grpc' })
  guard.write(Buffer.from([0, 0, 0, request.length >> 8, request.length % 256, ...request]))
  let received = Buffer.alloc(0)
  guard.on('data', data => {
    received = Buffer.concat([received, data])
    while (received.length >= 5 && received.length >= 5 + received.readUInt32BE(1)) {
      const end = 5 + received.readUInt32BE(1), response = decode(received.subarray(5, end))
      const isDestroyed = response[4] && decode(response[4])[2] === 1
      received = received.subarray(end)
      console.log(response[3] ? 'guarded' : isDestroyed ? 'destroyed' : response)
      if (isDestroyed) { server.destroy(); connd.destroy() }
      if (response[8]) {
        server.setKeepAlive(true, 1000)
        setTimeout(() => server.setKeepAlive(false), 1500)
      }
    }
  })
})
