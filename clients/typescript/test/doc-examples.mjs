// Writes every example of the README and of the comments to a file of its own, so that the compiler checks them:
// doc-examples.mjs PACKAGE FOLDER
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const [, , source, target] = process.argv;
mkdirSync(target, { recursive: true });
let written = 0;

/** What the examples in comments take for granted. */
const COMMON = `
import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import * as root from "postroom";
declare const error: unknown, signal: AbortSignal, messageId: string, url: string, token: string, secret: string;
declare const newSecret: string, oldSecret: string, text: string, body: Uint8Array, headers: Record<string, string>;
declare const request: root.PushRequest, receiver: root.Receiver, worker: root.Worker, orders: Order[];
declare function tryAgain(): Promise<void>;
declare function readToken(): string;
declare function log(...words: unknown[]): void;
declare function reserve(order: Order, signal?: AbortSignal): Promise<number>;
declare function printerIsBusy(): boolean;
declare function reserveOrder(message: root.Message<Order>): unknown;
interface Order { order: number; items: string[] }
`;
const BY_FOLDER = {
  pg: `import pg from "pg"; declare const pool: pg.Pool, client: pg.PoolClient;
declare function inTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T>;`,
  mysql: `import mysql from "mysql2/promise"; declare const pool: mysql.Pool, connection: mysql.PoolConnection;
declare function inTransaction<T>(pool: mysql.Pool, work: (connection: mysql.PoolConnection) => Promise<T>): Promise<T>;`,
  sqlite: `import Database from "better-sqlite3"; declare const db: Database.Database;`,
  wire: `import * as wire from "postroom/wire";
declare const key: wire.Key, inventory: wire.WireClient, enqueuedAt: bigint, head: wire.WireHead, response: ServerResponse, timestamp: string;
declare const receipt: string, envelope: wire.Envelope, arrived: wire.ArrivedRequest, verifier: wire.Verifier;
declare function handle(envelope: wire.Envelope): Promise<void>;`,
  testing: `declare const postroom: import("postroom/testing").FakePostroom;
declare function placeOrder(postroom: root.PostroomClient, order: number): Promise<void>;`,
  "": `import express from "express"; declare const app: express.Express; declare const client: root.Client;
import { once } from "postroom/pg"; declare const tx: import("pg").PoolClient, message: root.Message, work: () => number;`,
};
const ENTRIES = {
  pg: "postroom/pg",
  mysql: "postroom/mysql",
  sqlite: "postroom/sqlite",
  wire: "postroom/wire",
  testing: "postroom/testing",
};

/** Imports the names that an example uses and does not define itself. */
function imports(code, names, from) {
  const used = names.filter(
    (name) =>
      new RegExp(`(?<![.\\w"])${name}\\b`).test(code) &&
      !new RegExp(`(const|let|function|interface|class) ${name}\\b`).test(code),
  );
  return used.length === 0 ? "" : `import { ${used.map((name) => name).join(", ")} } from "${from}";\n`;
}

function exported(file) {
  const text = readFileSync(join(source, "src", file), "utf8");
  const lists = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, list]) => list.split(","));
  const own = [...text.matchAll(/^export (?:function|type|class|interface) (\w+)/gm)].map(([, name]) => name);
  return [...lists.map((name) => name.replace("type ", "").trim()).filter(Boolean), ...own];
}

function write(name, text) {
  written += 1;
  writeFileSync(join(target, `${String(written).padStart(3, "0")}-${name}.ts`), `${text}\nexport {};\n`);
}

for (const [, code] of readFileSync(join(source, "README.md"), "utf8").matchAll(/```ts\n([\s\S]*?)```/g))
  write("readme", code);

for (const file of readdirSync(join(source, "src"), { recursive: true }).filter((name) => name.endsWith(".ts"))) {
  const folder = Object.keys(ENTRIES).find((name) => file.startsWith(`${name}/`)) ?? "";
  for (const [, comment] of readFileSync(join(source, "src", file), "utf8").matchAll(/```ts\n([\s\S]*?) \* ```/g)) {
    const code = comment.replace(/^ *\* ?/gm, "");
    const known = folder === "" ? "" : imports(code, exported(`${folder}/index.ts`), ENTRIES[folder]);
    const others = imports(
      code,
      exported("index.ts").filter((name) => !new RegExp(`[{ ,]${name}[ ,]`).test(known)),
      "postroom",
    );
    const web = imports(code, exported("receive/express.ts"), "postroom/express");
    const tools = [
      /\bfetchHandler|pushRequest/.test(code) && folder === "testing" && !others.includes("fetchHandler")
        ? 'import { fetchHandler } from "postroom";\n'
        : "",
      /\benqueue\(tx/.test(code) && folder === "" ? 'import { enqueue } from "postroom/pg";\n' : "",
    ].join("");
    // What an example declares itself hides what it takes for granted.
    write(
      file.replace(/\W+/g, "-"),
      `${COMMON}${BY_FOLDER[folder]}\n${known}${others}${web}${tools}async function example() {\n${code}\n}`,
    );
  }
}

/** The exported names whose comment has no example. */
function* bare() {
  for (const entry of ["index.ts", ...Object.keys(ENTRIES).map((name) => `${name}/index.ts`), "receive/express.ts"]) {
    const text = readFileSync(join(source, "src", entry), "utf8");
    const lists = [...text.matchAll(/export (?:type )?\{([^}]*)\} from "([^"]+)"/g)];
    const own = [...text.matchAll(/^export (?:function|type|interface|class) (\w+)/gm)].map(([, name]) => [
      name,
      join("src", entry),
    ]);
    const others = lists.flatMap(([, names, from]) =>
      names
        .split(",")
        .map((name) => [name.replace("type ", "").trim(), join("src", dirname(entry), from.replace(/js$/, "ts"))]),
    );
    for (const [name, file] of [...own, ...others].filter(([name]) => name !== "")) {
      const code = readFileSync(join(source, file), "utf8");
      const at = code.search(new RegExp(`^export (?:async )?(?:function|type|interface|class) ${name}\\b`, "m"));
      if (!/```ts[^]*\*\/\n$/.test(code.slice(code.lastIndexOf("/**", at), at))) yield `${file}: ${name}`;
    }
  }
}

console.log(`${written} examples`);
const missing = [...bare()];
if (missing.length > 0) {
  console.error(`without an example:\n${missing.join("\n")}`);
  process.exitCode = 1;
}
