// fetch.mjs URL FILE: downloads with Node's own fetch.
import { writeFileSync } from "node:fs";

const [url, file] = process.argv.slice(2);
try {
  const response = await fetch(url);
  writeFileSync(file, Buffer.from(await response.arrayBuffer()));
} catch (error) {
  console.error(`${error.name}: ${error.message} ${error.cause?.code ?? ""}`);
  process.exit(1);
}
