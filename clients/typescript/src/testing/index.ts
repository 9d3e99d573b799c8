/**
 * For unit tests: a Postroom in memory, and signed requests for receivers.
 *
 * @packageDocumentation
 */
export { FakePostroom } from "./fake.js";
export type { FakeRecord } from "./record.js";
export { pushRequest, type PushOptions } from "./push.js";
