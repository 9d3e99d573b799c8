import { InvalidError } from "../errors.js";

const PART = /^[A-Za-z_][A-Za-z0-9_]{0,47}$/;

/** The name of a table, with or without a schema, checked: it goes into statements as it is. */
export function tableName(what: string, given: string | undefined, usual: string): string {
  if (given === undefined) return usual;
  const parts = typeof given === "string" ? given.split(".") : [];
  if (parts.length < 1 || parts.length > 2 || !parts.every((part) => PART.test(part))) {
    throw new InvalidError(
      `${what} must be NAME or SCHEMA.NAME; each is a letter or _ and then letters, digits and _, at most 48 in all`,
    );
  }
  return given;
}
