import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { promisify } from "node:util";

export const run = promisify(execFile);

/** The node under test. */
export const BIN = resolve(process.env["POSTROOM_BIN"] ?? "../../target/debug/postroom");

/** Why there is no node, if so. */
export const noNode = existsSync(BIN) ? undefined : `POSTROOM_BIN is no file: ${BIN}`;

/** Why there is no such variable, if so. */
export function unset(variable: string): string | undefined {
  return process.env[variable] ? undefined : `${variable} is not set`;
}

type Body = (t: TestContext) => unknown;

/** Tests that need something: without it they are skipped with the reason, and fail where CI is true. */
export function needing(
  name: string,
  missing: (string | undefined)[],
  define: (test: (name: string, body: Body) => void) => void,
): void {
  const reason = missing.find((one) => one !== undefined);
  describe(name, () =>
    define((title, body) => {
      if (reason === undefined) return void test(title, body as never);
      if (process.env["CI"] !== "true") return void test(title, { skip: reason }, () => undefined);
      test(title, () => {
        throw new Error(`CI must run everything, but ${reason}`);
      });
    }),
  );
}
