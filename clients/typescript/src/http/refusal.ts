import {
  ConflictError,
  InvalidError,
  NodeError,
  NotAllowedError,
  NotFoundError,
  UnavailableError,
  type ErrorDetails,
  type FieldError,
  type PostroomError,
} from "../errors.js";

type Words = { readonly [field: string]: unknown };

/** The error for an answer of a node, in the node's own words. */
export function refusal(status: number, body: unknown): PostroomError {
  const words: Words = typeof body === "object" && body !== null ? (body as Words) : {};
  const said = text(words["detail"]) ?? text(words["title"]);
  const fields = fieldsOf(words["errors"]);
  const advice = text(words["advice"]);
  const what = said ?? `the node answered ${status} and gave no reason`;
  const details: ErrorDetails = { status, fields, advice };
  return new (classOf(status))(withFields(what, fields), details);
}

function classOf(status: number): new (what: string, details: ErrorDetails) => PostroomError {
  switch (status) {
    case 400:
    case 405:
    case 413:
    case 415:
    case 422:
    case 431:
    case 501:
      return InvalidError;
    case 401:
    case 403:
    case 421:
      return NotAllowedError;
    case 404:
    case 410:
      return NotFoundError;
    case 409:
      return ConflictError;
    case 408:
    case 429:
    case 502:
    case 503:
    case 504:
      return UnavailableError;
    default:
      return NodeError;
  }
}

function fieldsOf(errors: unknown): FieldError[] {
  if (!Array.isArray(errors)) return [];
  return errors.flatMap((one: unknown) => {
    const { field, detail } = (typeof one === "object" && one !== null ? one : {}) as Words;
    return typeof field === "string" && typeof detail === "string" ? [{ field, detail }] : [];
  });
}

function withFields(what: string, fields: FieldError[]): string {
  const more = fields.filter(({ field, detail }) => !(what.includes(field) && what.includes(detail)));
  return more.length === 0 ? what : `${what}: ${more.map(({ field, detail }) => `${field} ${detail}`).join("; ")}`;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
