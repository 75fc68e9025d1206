// A program with connections that guard.mjs guards: node --import guard.mjs driver.mjs.
// Reads commands, a line each, and prints events. See driver.py.
import net from 'node:net'
import readline from 'node:readline'
import { events, guard, release, status } from '../../../clients/node/guard.mjs'

const sockets = new Map(), numbers = new WeakMap()

for (const kind of ['path', 'destroy', 'drain', 'advise', 'refused', 'suspended']) {
  events.on(kind, (socket, reason) => console.log([kind, numbers.get(socket), reason].filter(Boolean).join(' ')))
}

const commands = {
  connect(number, host, port, isGuarded = true) {
    const socket = net.connect({ host, port: Number(port) })
    numbers.set(socket, number)
    sockets.set(number, socket)
    let isOpen = false
    socket.on('connect', () => {
      isOpen = true
      if (!isGuarded) release(socket)
      console.log(`open ${number} ${socket._handle.fd}`)
    })
    socket.on('data', () => console.log(`echoed ${number}`))
    const end = words => {
      sockets.delete(number)
      console.log(words)
    }
    socket.on('error', ({ code, message }) => {
      end(isOpen ? `ended ${number} ${code === 'ECONNRESET' ? 'reset' : code}` : `failed ${message}`)
    })
    socket.on('end', () => end(`ended ${number} EOF`))
  },
  open(number, host, port) { this.connect(number, host, port, false) },
  guard(number) { guard(sockets.get(number)) },
  echo(number) { sockets.get(number).write('x') },
  close(number) {
    sockets.get(number).once('close', () => console.log(`closed ${number}`)).destroy()
    sockets.delete(number)
  },
  status(timeout = 10_000) {
    status({ timeout: Number(timeout) }).then(({ category, interface: link }) => console.log(`status ${category} ${link}`), () => console.log('absent'))
  },
}

console.log('ready')
readline.createInterface({ input: process.stdin }).on('line', line => {
  const [command, ...words] = line.split(' ')
  commands[command](...words)
}).on('close', () => process.exit())
