// http2.mjs ADDRESS KEY CERTIFICATE: an HTTP/2 server on port 8443. It sends slowly to the cable's address.
import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";

const [address, key, certificate] = process.argv.slice(2);
const body = Buffer.from(Array.from({ length: 12500 }, (_, number) => `${number}`.padStart(7, "0") + "\n").join(""));
const server = createSecureServer({ key: readFileSync(key), cert: readFileSync(certificate) });
server.on("stream", (stream) => {
  const isSlow = stream.session.socket.remoteAddress.includes("192.0.2.");
  stream.on("error", () => {});
  stream.respond({ ":status": 200, "content-length": body.length });
  if (!isSlow) return stream.end(body);
  let at = 0;
  const timer = setInterval(() => {
    stream.write(body.subarray(at, (at += 2000)));
    if (at >= body.length) stream.end();
    if (at >= body.length || stream.destroyed) clearInterval(timer);
  }, 100);
  stream.on("close", () => clearInterval(timer));
});
server.on("sessionError", () => {});
server.listen(8443, address);
