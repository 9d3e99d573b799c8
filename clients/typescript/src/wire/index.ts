/**
 * Postroom's signed wire, version 2: sign and verify requests and receipts, and send a message to a receiver.
 *
 * @packageDocumentation
 */
export { WireClient } from "./client.js";
export type { SendOptions, SendOutcome, Sent, WireClientOptions } from "./client.js";
export { Key } from "./key.js";
export type { HmacAlgorithm, KeyFields } from "./key.js";
export { microsNow, signRequest } from "./request.js";
export type { Micros, SignedRequest } from "./request.js";
export { makeReceipt, verifyReceipt } from "./receipt.js";
export type { ReceiptFields } from "./receipt.js";
export { verifyRequest } from "./verify.js";
export type { ArrivedRequest, Verdict, Verifier, WireHead, WireSource } from "./verify.js";
export { envelopeText, parseEnvelope } from "./envelope.js";
export type { Envelope, EnvelopeFields, WireKind } from "./envelope.js";
export { signV1, verifyV1 } from "./v1.js";
export type { V1Fields } from "./v1.js";
