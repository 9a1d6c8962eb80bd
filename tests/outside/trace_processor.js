// SPDX-License-Identifier: MIT OR Apache-2.0
// Perfetto's own trace processor, as its page in the browser has it (WebAssembly), without a
// browser: reads a trace, answers queries, and prints each answer as a line of JSON.
//
//   node trace_processor.js FOLDER TRACE SQL…      FOLDER has engine_bundle.js and the .wasm files
//
// The two speak by protocol buffers (perfetto/trace_processor/trace_processor.proto).
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;

function varint(value, to) {
  for (value = BigInt(value); value > 127n; value >>= 7n) to.push(Number(value & 127n) | 128);
  to.push(Number(value));
}
function number(field, value) {
  const to = [];
  varint(field << 3, to);
  varint(value, to);
  return Buffer.from(to);
}
function bytes(field, value) {
  const to = [];
  varint(field << 3 | 2, to);
  varint(value.length, to);
  return Buffer.concat([Buffer.from(to), value]);
}
// The fields of a message: [number, value], a value being a BigInt or bytes.
function fields(message) {
  const found = [];
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = Number(next());
    let value;
    if ((key & 7) === 0) value = next();
    else {
      const length = (key & 7) === 2 ? Number(next()) : (key & 7) === 1 ? 8 : 4;
      value = message.subarray(at, at += length);
    }
    found.push([key >> 3, value]);
  }
  return found;
}
const all = (message, field) => fields(message).filter(([number]) => number === field).map(([, value]) => value);
function varints(packed) {
  const found = [];
  for (let at = 0; at < packed.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = packed[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    found.push(value);
  }
  return found;
}

// What the bundle expects of the browser's thread that it runs in. It refuses to run where it finds
// Node's own names.
const port = { onmessage: null, postMessage: (reply) => answered(Buffer.from(reply)) };
let answered = () => {};
const quiet = { log() {}, warn() {}, error: console.error };
const worker = vm.createContext({
  console: quiet, URL, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, crypto,
  WorkerGlobalScope: function () {}, location: { href: 'https://local/' },
  XMLHttpRequest: class {
    open(_, name) { this.name = path.basename(String(name)); }
    send() {
      const wasm = fs.readFileSync(path.join(folder, this.name));
      this.response = wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.length);
    }
  },
});
worker.self = worker;
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker, { filename: 'engine_bundle.js' });
worker.onmessage({ data: port });
const Bytes = vm.runInContext('Uint8Array', worker);

let seq = 0;
function ask(kind, more) {
  const message = Buffer.concat([number(1, ++seq), number(2, kind), more]);
  const replies = [];
  answered = (reply) => replies.push(reply);
  port.onmessage({ data: Bytes.from(bytes(1, message)) });
  return all(Buffer.concat(replies), 1);
}
function query(sql) {
  const rows = [];
  let names = [];
  const replies = ask(QUERY, bytes(103, bytes(1, Buffer.from(sql))));
  for (const reply of replies) {
    for (const result of all(reply, 203)) {
      const error = all(result, 2);
      if (error.length && error[0].length) throw new Error(`${sql}: ${error[0]}`);
      names = names.concat(all(result, 1).map(String));
      for (const batch of all(result, 3)) {
        const numbers = all(batch, 2).flatMap(varints);
        const floats = Buffer.concat(all(batch, 3));
        const strings = all(batch, 5).map(String).join('').split('\0');
        let float = 0;
        const cells = all(batch, 1).flatMap(varints).map((kind) => {
          switch (Number(kind)) {
            case 1: return null;
            case 2: return Number(BigInt.asIntN(64, numbers.shift()));
            case 3: return floats.readDoubleLE(8 * float++);
            case 4: return strings.shift();
            default: throw new Error(`cell of kind ${kind}`);
          }
        });
        while (cells.length) rows.push(cells.splice(0, names.length));
      }
    }
  }
  return { names, rows };
}

function answer() {
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 16 << 20) ask(APPEND, bytes(101, data.subarray(at, at + (16 << 20))));
  ask(FINALIZE, Buffer.alloc(0));
  for (const sql of queries) console.log(JSON.stringify(query(sql)));
  process.exit(0);
}
// By then what the bundle put off is done too.
setTimeout(answer, 0);
