import type { TestContext } from "node:test";

const ends = new WeakMap<TestContext, (() => unknown)[]>();

/** Runs this when the test is over. What was started last ends first. */
export function atEnd(t: TestContext, end: () => unknown): void {
  const known = ends.get(t);
  if (known !== undefined) return void known.push(end);
  const all = [end];
  ends.set(t, all);
  t.after(async () => {
    for (const one of all.reverse()) await one();
  });
}
