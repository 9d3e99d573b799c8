/** A member of an object: its name, and its value as it is written. */
export interface Member {
  name: string;
  text: string;
}

/**
 * The members of a JSON object in their order, with the text of each value; `undefined` if the text is no object. What
 * `JSON.parse` hides is visible here: a name that appears twice, and the bytes of a value.
 */
export function members(text: string): Member[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  // From here on the text is known to be valid JSON.
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const found: Member[] = [];
  let at = skipBlanks(text, text.indexOf("{") + 1);
  while (text[at] === '"') {
    const nameEnd = stringEnd(text, at);
    const begin = skipBlanks(text, skipBlanks(text, nameEnd) + 1);
    const end = valueEnd(text, begin);
    found.push({ name: JSON.parse(text.slice(at, nameEnd)) as string, text: text.slice(begin, end) });
    at = skipBlanks(text, end);
    if (text[at] === ",") at = skipBlanks(text, at + 1);
  }
  return found;
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (" \t\n\r".includes(text[at] ?? "x")) at += 1;
  return at;
}

/** The place behind a string. */
function stringEnd(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** The place behind a value. */
function valueEnd(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const sign = text[at] ?? "";
    if (sign === '"') {
      at = stringEnd(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (depth === 0 && ",}] \t\n\r".includes(sign)) return at;
    if (sign === "{" || sign === "[") depth += 1;
    if (sign === "}" || sign === "]") depth -= 1;
    at += 1;
    if (depth === 0 && (sign === "}" || sign === "]")) return at;
  }
  return at;
}
