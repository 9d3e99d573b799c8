// The examples, as a stranger runs them: from the installed package, each in a process of its own.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import Database from "better-sqlite3";

import { atEnd } from "./support/cleanup.js";
import { needing, noNode, run } from "./support/need.js";
import { folder, TestNode, TOKEN } from "./support/node.js";
import { freePort } from "./support/server.js";

const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;
const program = (name: string): string => fileURLToPath(new URL(`../examples/${name}.js`, import.meta.url));

/** Runs an example until the test is over. */
function background(
  t: TestContext,
  name: string,
  words: string[],
  env: object,
): { line: Promise<string>; stop: () => Promise<number | null> } {
  const child = spawn(process.execPath, [program(name), ...words], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<number | null>((code) => child.once("exit", (status) => code(status)));
  const stop = async (): Promise<number | null> => {
    child.kill("SIGTERM");
    return ended;
  };
  atEnd(t, stop);
  return { line: new Promise((line) => createInterface(child.stdout).once("line", line)), stop };
}

needing("the examples", [noNode], (test) => {
  test("an order is placed in a transaction, handled by pull and by push, and answered", async (t) => {
    const [port, at] = [await freePort(), await folder(t)];
    await writeFile(join(at, "handler.key"), secret, { mode: 0o600 });
    const node = await TestNode.start(
      t,
      `[handlers."stock.reserve"]\npull = true
[handlers."invoice.print"]\nurl = "http://127.0.0.1:${port}/"\nsecret = { file = "${join(at, "handler.key")}" }\n`,
    );
    const env = {
      NODE_URL: node.url,
      NODE_TOKEN: TOKEN,
      SHOP_DB: node.db,
      STOCK_DB: join(at, "stock.db"),
      HANDLER_SECRET: secret,
    };
    const receiver = background(t, "receive-messages", [String(port)], env);
    assert.equal(await receiver.line, "listening");
    const worker = background(t, "fetch-messages", [], env);
    const { stdout } = await run(process.execPath, [program("place-order"), "7"], { env: { ...process.env, ...env } });
    assert.deepEqual(stdout.trim().split("\n"), [
      'stock.reserve done {"shelf":14}',
      'invoice.print done {"invoice":"invoice-7","lane":"order-7"}',
    ]);
    assert.equal(await worker.stop(), 0, "SIGTERM ends it in order");
    const stock = new Database(env.STOCK_DB);
    atEnd(t, () => stock.close());
    assert.deepEqual(stock.prepare("SELECT * FROM reserved").all(), [{ order_id: 7, shelf: 14 }]);
  });
});

describe("the package", () => {
  test("each example has less than forty lines", async () => {
    const sources = fileURLToPath(new URL("../../examples/", import.meta.url));
    const files = (await readdir(sources)).filter((name) => name.endsWith(".ts"));
    assert.ok(files.length >= 3);
    for (const name of files)
      assert.ok((await readFile(join(sources, name), "utf8")).trim().split("\n").length < 40, name);
  });

  test("every entry can be imported, and nothing of it is a dependency", async () => {
    const found = await Promise.all(
      ["", "/pg", "/sqlite", "/mysql", "/express", "/wire", "/testing"].map((entry) => import(`postroom${entry}`)),
    );
    assert.ok(found.every((module: object) => Object.keys(module).length > 0));
    const about = JSON.parse(await readFile(fileURLToPath(import.meta.resolve("postroom/package.json")), "utf8"));
    assert.deepEqual([about.dependencies, about.license, about.type], [undefined, "MIT OR Apache-2.0", "module"]);
    const packed = await readdir(fileURLToPath(new URL(".", import.meta.resolve("postroom/package.json"))));
    assert.deepEqual(packed.sort(), ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"]);
  });
});
