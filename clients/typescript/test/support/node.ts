import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { Client } from "postroom";

import { atEnd } from "./cleanup.js";
import { BIN } from "./need.js";
import { eventually } from "./signal.js";

/** The token that may do everything. */
export const TOKEN = "a-token-for-tests-that-must-not-be-printed";

/** A fresh folder that is gone after the test. */
export async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "postroom-ts-"));
  atEnd(t, () => rm(path, { recursive: true, force: true, maxRetries: 3 }));
  return path;
}

/** A node of its own for one test. */
export class TestNode {
  #process: ChildProcess | undefined;
  #said = "";
  url = "";
  receiverUrl = "";

  private constructor(
    readonly folder: string,
    readonly db: string,
    private readonly config: string,
  ) {}

  /** Starts one. `config` is added to its configuration. */
  static async start(t: TestContext, config: string, db?: string): Promise<TestNode> {
    const at = await folder(t);
    const node = new TestNode(at, db ?? join(at, "shop.db"), config);
    atEnd(t, () => node.kill());
    await node.start();
    return node;
  }

  /** Starts it, again at the same address. */
  async start(): Promise<void> {
    const digest = createHash("sha256").update(TOKEN).digest("hex");
    const port = this.url === "" ? "0" : new URL(this.url).port;
    const listens = this.config.includes("[receiver]") ? "" : "[receiver]\nlisten = []\n";
    await writeFile(
      join(this.folder, "postroom.toml"),
      `${this.config}
${listens}
[admin]
listen = "127.0.0.1:${port}"
[tokens.tests]
digests = ["${digest}"]
may = ["enqueue", "pull", "payload", "operate"]
`,
    );
    this.#said = "";
    const child = spawn(BIN, ["up"], {
      cwd: this.folder,
      env: { ...process.env, POSTROOM_DB: this.db, NO_COLOR: "1" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    child.stderr.on("data", (part: Buffer) => (this.#said += part.toString()));
    await eventually("the node is ready", async () => {
      if (child.exitCode !== null) throw new Error(`the node ended: ${this.#said}`);
      this.url = /HTTP API at (http:\S+)/.exec(this.#said)?.[1] ?? this.url;
      this.receiverUrl = /receives [^\n]*(http:\S+)/.exec(this.#said)?.[1] ?? this.receiverUrl;
      if (!this.#said.includes("HTTP API")) return false;
      return (await fetch(`${this.url}/_rf/ready`).catch(() => undefined))?.ok;
    });
  }

  /** Kills it without a warning, and waits until it is gone. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** What it printed. */
  get said(): string {
    return this.#said;
  }

  client(): Client {
    return new Client({ url: this.url, token: TOKEN });
  }
}
