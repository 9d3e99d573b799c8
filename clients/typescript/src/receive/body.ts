/** Reads a body, but no more of it than allowed; `undefined` if it is longer. */
export async function readBody(chunks: AsyncIterable<Uint8Array>, max: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.byteLength;
    if (length > max) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts, length);
}
