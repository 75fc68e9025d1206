// Ends the dead TCP connections of a program, by connd's advice. Needs Node.js 18.18 and no package.
//
//   node --import ./guard.mjs app.mjs     guards all connections that a program makes
//
//   import { events, guard, release, status, watch } from './guard.mjs'
//                                         the same, from here on
//   guard(socket)                         an older connection, or one that a server accepted
//   guard(socket, { isNew: true })        a connection that was made a moment ago
//   release(socket)                       no longer guards a connection
//   events.on('destroy', …)               reports
//   await status()                        the state of the network
//   for await (const status of watch())   follows it; null while connd is not running, or is elsewhere
//
// When connd finds a guarded connection dead, its socket is destroyed with an error. The error's
// code is ECONNRESET, and its cause is the reason. The program then connects again. If connd is not
// running, or speaks for another network namespace, nothing happens. Nothing here keeps the process
// running.
//
// The protocol is described in connectivity.proto. Numbers such as E4 are rules of docs/rules.md.
import { EventEmitter } from 'node:events'
import fs from 'node:fs'
import http2 from 'node:http2'
import net from 'node:net'
import path from 'node:path'

const minPause = 1000, maxPause = 60_000
const maxMessage = 1 << 20
const maxFlows = 16384  // limits.flowsPerStream of connd.yaml
const reasons = [undefined, 'sourceAddressLost', 'interfaceLost', 'networkChanged', 'categoryChanged', 'betterPath',
  'policy', 'resumed', 'silent']
const maxTrialAge = 5000  // an older connection may have died, so it shows nothing about connd
const firstSurvivable = 4, policy = 6  // reasons that may end a connection that works
const unknownReason = 4  // a reason of a newer connd counts as categoryChanged
const severities = [undefined, 'destroy', 'drain']
const satisfied = 1, requiresConnection = 2, unsatisfied = 3  // PathStatus

// Emits `path`, `destroy`, `drain`, `advise`, `refused` and `suspended`, each with the socket and
// the reason, such as `interfaceLost`. `refused`: the connection is not guarded, because connd
// refused it, or too many are guarded. `suspended`: connd wrongly rejected three connections in a
// row, so that new ones to this destination, such as this one, are not guarded.
export const events = new EventEmitter()

const { connect: connectSocket, setKeepAlive } = net.Socket.prototype

// MARK: Protobuf

function* varint(number) {
  for (; number > 127; number = Math.floor(number / 128)) yield number % 128 | 128
  yield number
}

function field(key, value) {
  if (value === undefined) return []
  if (typeof value === 'number') return [...varint(key * 8), ...varint(value)]
  const bytes = Buffer.from(value)
  return [...varint(key * 8 + 2), ...varint(bytes.length), ...bytes]
}

// The first value of each field. Throws for malformed messages.
function decode(data) {
  const fields = {}
  let at = 0
  const number = () => {
    let result = 0
    for (let factor = 1; at < data.length && factor < 2 ** 70; factor *= 128) {
      result += (data[at] & 127) * factor
      if (data[at++] < 128) return result
    }
    throw new Error('malformed protobuf')
  }
  while (at < data.length) {
    const key = number(), kind = key % 8
    let value
    if (kind === 0) {
      value = number()
    } else {
      const length = kind === 2 ? number() : kind === 1 ? 8 : kind === 5 ? 4 : Infinity
      if (at + length > data.length) throw new Error('malformed protobuf')
      value = data.subarray(at, at += length)
    }
    fields[Math.floor(key / 8)] ??= value
  }
  return fields
}

// MARK: Calls

const system = '/run/connd/connd.sock'

function socketPath() {
  const { CONND_SOCKET: named, XDG_RUNTIME_DIR: directory } = process.env
  if (named) return { file: named, isSystem: false }
  const isOwn = process.geteuid() !== 0 && !fs.existsSync(system) && directory
  return isOwn ? { file: `${directory}/connd.sock`, isSystem: false } : { file: system, isSystem: true }
}

// Another user's answers could end connections. So root, this user, or the owner of the system's
// directory must have made the socket.
function checkOwner({ file, isSystem }) {
  const { uid } = fs.statSync(file)
  if (uid === 0 || uid === process.geteuid()) return
  if (isSystem && fs.statSync(path.dirname(file)).uid === uid) return
  throw new Error(`uid ${uid} owns ${file}, but is neither root nor this user`)
}

// Begins a call. `drained` is called when there is room again after `send` returned false, and
// `ended` once, never before this returns. With `isBackground`, the call does not keep the process
// running.
function call(method, received, ended, { drained = () => {}, isBackground = false } = {}) {
  let isOver = false
  const end = error => {
    if (isOver) return
    isOver = true
    session?.destroy()
    ended(error)
  }
  let session, stream, buffer = Buffer.alloc(0)
  try {
    const place = socketPath()
    checkOwner(place)
    const createConnection = () => connectSocket.call(new net.Socket(), { path: place.file })
    session = http2.connect('http://localhost', { createConnection, settings: { enablePush: false } })
    session.on('error', end).on('close', () => end()).on('goaway', () => end())
    stream = session.request({ ':method': 'POST', ':path': `/connectivity.v1.Connectivity/${method}`,
      te: 'trailers', 'content-type': 'application/grpc' })
    if (isBackground) session.unref()
    stream.on('error', end).on('close', () => end()).on('drain', drained).on('data', data => {
      try {
        buffer = Buffer.concat([buffer, data])
        while (!isOver && buffer.length >= 5) {
          const length = buffer.readUInt32BE(1)
          if (buffer[0] !== 0 || length > maxMessage) throw new Error('a message is too large')
          if (buffer.length - 5 < length) break
          const message = decode(buffer.subarray(5, 5 + length))
          buffer = buffer.subarray(5 + length)
          received(message)
        }
      } catch (error) {
        end(error)
      }
    })
  } catch (error) {
    process.nextTick(end, error)
  }
  const send = (bytes, { isLast = false } = {}) => {
    const message = Buffer.from([0, 0, 0, 0, 0, ...bytes])
    message.writeUInt32BE(bytes.length, 1)
    if (!stream?.writable) return false
    return isLast ? stream.end(message) : stream.write(message)
  }
  return { end, send }
}

// MARK: Guarding

const flows = new Map()  // by id
const unsent = new Set()  // flows that connd does not know in this call
const flowOf = new WeakMap()  // by socket
const keepalive = new WeakMap()  // the program's own options of a socket
let lastId = 0, guarding, isFull, generation, retry, pause = minPause

// Counts wrong rejections of new connections, by destination (I11).
const breaker = {
  limit: 3, minRest: 5 * 60_000, maxRest: 60 * 60_000, maxCount: 256,
  life: 60 * 60_000,  // how long a refutation counts, or after the rest of an open breaker
  entries: new Map(),  // the oldest first
  allows(key) { return performance.now() >= (this.entries.get(key)?.end ?? 0) },
  confirmed(key) { if (this.allows(key)) this.entries.delete(key) },
  // Returns for how long new connections are not guarded, if this opens the breaker.
  refuted(key) {
    const now = performance.now(), none = { count: 0, rest: 0, end: 0, change: now }
    let last = this.entries.get(key) ?? none, opens = false
    if (now > Math.max(last.change, last.end) + this.life) last = none
    let next = { ...last, change: now }
    if (last.rest === 0 && last.count + 1 < this.limit) {
      next.count = last.count + 1
    } else if (now >= last.end) {
      const rest = last.rest === 0 ? this.minRest : Math.min(last.rest * 2, this.maxRest)
      next = { count: this.limit, rest, end: now + rest, change: now }
      opens = true
    }
    this.entries.delete(key)
    this.entries.set(key, next)
    if (this.entries.size > this.maxCount) this.entries.delete(this.entries.keys().next().value)
    return opens ? next.rest : undefined
  },
}

function namespace() {
  return fs.statSync('/proc/self/ns/net', { throwIfNoEntry: false })?.ino ?? 0
}

function checkNamespace(number) {
  if (number && number !== namespace()) throw new Error('connd speaks for another network namespace')
}

function addition(flow) {
  if (performance.now() - flow.made > maxTrialAge) flow.isNew = false
  const since = flow.isAnswered ? generation : undefined
  const isExisting = !flow.isNew || flow.progress === 'reported' ? 1 : undefined
  return field(1, [...field(1, flow.id), ...field(2, flow.remote), ...field(3, flow.local), ...field(5, flow.zone),
    ...field(6, since), ...field(7, flow.knownPath), ...field(10, flow.localPort), ...field(11, flow.remotePort),
    ...field(12, 6), ...field(13, 1), ...field(14, isExisting)])  // TCP; FLOW_QUESTION_KEEPALIVE
}

// Sends the flows that connd does not know, as far as it reads.
function send() {
  for (const flow of unsent) {
    if (isFull) return
    unsent.delete(flow)
    flow.isSent = true
    isFull = !guarding.send(addition(flow))
  }
}

function open() {
  if (guarding || retry || flows.size === 0) return
  isFull = false
  const drained = () => { isFull = false; send() }
  guarding = call('Guard', received, lost, { drained, isBackground: true })
  send()
}

function lost() {
  guarding = undefined
  for (const flow of flows.values()) {
    flow.isSent = false
    unsent.add(flow)
  }
  retry = setTimeout(() => { retry = undefined; open() }, pause).unref()
  pause = Math.min(pause * 2, maxPause)
}

function received(message) {
  pause = maxPause  // for a connd that is elsewhere
  checkNamespace(message[7])
  pause = minPause
  generation = message[1] ?? 0
  const flow = flows.get(message[2])
  if (!flow) return
  const invalidation = decode(message[4] ?? [])
  const path = message[3] ?? message[6]
  const state = path ?? invalidation[4]
  let kind = 'refused'
  if (path) {
    kind = 'path'
    flow.knownPath = path.length <= 4096 ? path : undefined
    flow.isAnswered = true
  } else if (message[4]) {
    kind = severities[invalidation[2]] ?? 'advise'  // An unknown severity is advice.
  } else if (!message[5]) {
    return
  }
  if (message[8] && kind !== 'destroy') ask(flow)
  const number = invalidation[1]
  const reason = number && !reasons[number] ? unknownReason : number
  report(flow, kind, reason, state && decode(state)[1])
}

// Counts wrong rejections, ends the connection, and tells the program.
function report(flow, kind, number, status) {
  const { socket } = flow, reason = reasons[number]
  let rest
  if (flow.isNew && flow.progress !== 'reported') {
    if (kind === 'path' && status === satisfied) breaker.confirmed(flow.destination)
    const isOutcome = flow.progress === 'doubted' && number >= firstSurvivable
    if (kind === 'destroy' && number !== policy && !isOutcome) rest = breaker.refuted(flow.destination)
  }
  if (flow.progress === 'unreported') {
    const isDoubtful = status === requiresConnection || status === unsatisfied
    flow.progress = flow.isNew && isDoubtful ? 'doubted' : 'reported'
  } else if (status === satisfied) {
    flow.progress = 'reported'
  }
  if (kind === 'destroy' || kind === 'refused') remove(flow, { isGuarded: false })
  if (kind === 'destroy') {
    const error = new Error('read ECONNRESET', { cause: `connd: ${reason}` })
    socket.destroy(Object.assign(error, { code: 'ECONNRESET', errno: -104, syscall: 'read' }))
  }
  tell(kind, socket, reason)
  if (rest === undefined) return
  process.emitWarning(`connd wrongly rejects new connections to ${flow.destination} (${reason}).`
    + ` They are not guarded for ${rest / 60_000} minutes.`)
  tell('suspended', socket, reason)
}

// An error of the program's function is not an error of the call.
function tell(kind, socket, reason) {
  process.nextTick(() => events.emit(kind, socket, reason))
}

// Asks the peer by a keepalive probe, and restores the options afterwards (E4). libuv has the kernel
// end a connection after ten probes without an answer, and connd asks fewer than five times.
function ask(flow) {
  const { socket } = flow, own = keepalive.get(socket)
  // Node cannot restore the kernel's idle time.
  if (flow.timers || (own?.isOn && !(own.delay >= 1000))) return
  const probe = () => {
    setKeepAlive.call(socket, false)
    setKeepAlive.call(socket, true, 1000)
  }
  probe()
  flow.timers = [setTimeout(probe, 600).unref(), setTimeout(endProbe, 1500, flow).unref()]
}

function endProbe(flow) {
  flow.timers?.forEach(clearTimeout)
  if (!flow.timers || flow.socket.destroyed) return
  flow.timers = undefined
  setKeepAlive.call(flow.socket, false)
  const own = keepalive.get(flow.socket)
  if (own?.isOn) setKeepAlive.call(flow.socket, true, own.delay)
}

function remove(flow, { isGuarded = true } = {}) {
  endProbe(flow)
  flows.delete(flow.id)
  unsent.delete(flow)
  if (flowOf.get(flow.socket) === flow) flowOf.delete(flow.socket)
  if (isGuarded && flow.isSent) guarding?.send(field(2, field(1, flow.id)))
}

function add(socket, isNew) {
  // A Unix socket has no remote address. A loopback connection needs no guard.
  const { remoteAddress, localAddress, remotePort, localPort } = socket
  if (socket.destroyed || !remoteAddress || !localAddress || flowOf.has(socket)) return
  const [remote, zone] = remoteAddress.split('%'), [local] = localAddress.split('%')
  if (remote === local || /^(::ffff:)?127\.|^::1$/.test(remote)) return
  const destination = `${remote} port ${remotePort}`
  if (isNew && !breaker.allows(destination)) return tell('suspended', socket)
  if (flows.size >= maxFlows) return tell('refused', socket)
  const flow = { id: ++lastId, socket, remote, zone, local, remotePort, localPort, destination, isNew,
    made: performance.now(), progress: 'unreported' }
  flows.set(flow.id, flow)
  unsent.add(flow)
  flowOf.set(socket, flow)
  socket.once('close', () => { if (flows.has(flow.id)) remove(flow) })
  if (guarding) send()
  else open()
}

// Guards a TCP socket (net.Socket, tls.TLSSocket). `isNew` says that the connection was made a
// moment ago, so that it works. If connd rejects three such connections to one destination in a row,
// new ones to it are not guarded for a while (I11). An older connection may have died before, which
// is not an error of connd. A socket that still connects is new once it is connected.
export function guard(socket, { isNew = false } = {}) {
  if (socket.connecting) socket.once('connect', () => add(socket, true))
  else add(socket, isNew)
}

// Stops guarding a connection.
export function release(socket) {
  const flow = flowOf.get(socket)
  if (flow) remove(flow)
}

net.Socket.prototype.connect = function (...args) {
  const options = Array.isArray(args[0]) ? args[0][0] : args[0]
  if (options?.keepAlive) keepalive.set(this, { isOn: true, delay: options.keepAliveInitialDelay })
  const result = connectSocket.apply(this, args)
  guard(this, { isNew: true })
  return result
}

net.Socket.prototype.setKeepAlive = function (isOn, delay) {
  keepalive.set(this, { isOn: Boolean(isOn), delay })
  return setKeepAlive.call(this, isOn, delay)
}

// MARK: The state of the network

const categories = ['unknown', 'none', 'wifi', 'cellular', 'wired', 'other']

function readStatus(fields) {
  checkNamespace(fields[13])
  return {
    generation: fields[1] ?? 0, category: categories[fields[2]] ?? 'unknown', interface: fields[6]?.toString() ?? null,
    expensive: fields[8] === undefined ? null : fields[8] !== 0, constrained: Boolean(fields[9]),
  }
}

// Returns the state of the network, in the words of connctl's JSON. Rejects if connd is not running,
// is in another network namespace, or does not answer in time (in milliseconds).
export function status({ timeout = 1000 } = {}) {
  return new Promise((resolve, reject) => {
    const current = call('GetStatus', message => {
      resolve(readStatus(message))
      current.end()
    }, error => {
      clearTimeout(timer)
      reject(error ?? new Error('connd has ended the call'))
    })
    const late = Object.assign(new Error('connd does not answer'), { code: 'ETIMEDOUT' })
    const timer = setTimeout(current.end, timeout, late)
    current.send([], { isLast: true })
  })
}

// Returns the status in an event of Watch, or undefined if it has none.
function eventStatus(message) {
  // Snapshot, Transition, PathChange and Gap, and the number of their status.
  for (const [event, number] of [[2, 2], [3, 6], [4, 2], [6, 2]]) {
    if (message[event]) return readStatus(decode(decode(message[event])[number] ?? []))
  }
}

// Yields the status now and after changes, and null while connd is not running, or is in another
// network namespace. A slow reader misses intermediate states, but never the last one.
export async function* watch() {
  let isAbsent = false, wait = minPause
  for (;;) {
    let latest, isOver = false, wake = () => {}
    const current = call('Watch', message => {
      latest = eventStatus(message) ?? latest
      wake()
    }, () => { isOver = true; wake() })
    current.send([], { isLast: true })
    try {
      while (latest || !isOver) {
        if (latest) {
          [isAbsent, wait] = [false, minPause]
          const next = latest
          latest = undefined
          yield next
        } else {
          await new Promise(resolve => { wake = resolve })
        }
      }
    } finally {
      current.end()
    }
    if (!isAbsent) yield null
    isAbsent = true
    await new Promise(resolve => setTimeout(resolve, wait))
    wait = Math.min(wait * 2, maxPause)
  }
}
