import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { atEnd } from "./cleanup.js";
import { TOKEN } from "./node.js";
import type { Signal } from "./signal.js";

/** A worker in a process of its own, so that it can be killed. */
export class ChildWorker {
  private constructor(private readonly process: ChildProcess) {}

  /** Starts one; each message that it has handled fires the signal. */
  static async start(t: TestContext, url: string, db: string, handled: Signal<string>): Promise<ChildWorker> {
    const program = fileURLToPath(new URL("./order-worker.js", import.meta.url));
    const child = spawn(process.execPath, [program, url, db], {
      env: { ...process.env, TOKEN },
      stdio: ["ignore", "pipe", "ignore"],
    });
    createInterface(child.stdout).on("line", (line) => handled.fire(line));
    const worker = new ChildWorker(child);
    atEnd(t, () => worker.kill());
    return worker;
  }

  /** Kills it without a warning, and waits until it is gone. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await gone;
  }
}
