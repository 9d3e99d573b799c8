import { InvalidError } from "../errors.js";

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * A URL of http or https without a password. Without encryption it must be on this machine, unless that is allowed. The
 * errors do not quote it: it may have a password.
 */
export function checkedUrl(url: string | URL, example: string, allowUnencrypted: boolean | undefined): URL {
  if (!URL.canParse(String(url))) throw new InvalidError(`url must be like ${example}`);
  const parsed = new URL(url);
  if (!["http:", "https:"].includes(parsed.protocol)) throw new InvalidError("url must begin with http:// or https://");
  if (parsed.username !== "" || parsed.password !== "") throw new InvalidError("url must have no user and no password");
  if (parsed.protocol === "http:" && !LOOPBACK.test(parsed.hostname) && allowUnencrypted !== true) {
    throw new InvalidError("url is http:// to another machine, where anyone on the way can read everything", {
      advice: "https://, or set allowUnencrypted",
    });
  }
  return parsed;
}
