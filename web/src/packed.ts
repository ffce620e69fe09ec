import type { Numbers, Packed, PackedArray, PackedHeader } from "./types";

/**
 * Reads one packed answer: uint32 (little endian) length of the header, the header as JSON, then the arrays.
 * The data part starts at the next multiple of 8 after the header; offsets are relative to it.
 */
export function unpack(buffer: ArrayBuffer): Packed {
  if (buffer.byteLength < 4) throw new Error("An answer of the server is too short to be read.");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error("An answer of the server ends before its header does.");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as PackedHeader;
  const start = Math.ceil((4 + length) / 8) * 8;
  const arrays = new Map<string, PackedArray>();
  for (const { name, dtype, shape, offset } of header.arrays ?? []) {
    const size = shape.reduce((product, side) => product * side, 1);
    arrays.set(name, { data: numbers(buffer, dtype, start + offset, size), shape });
  }
  return { header, arrays };
}

function numbers(buffer: ArrayBuffer, dtype: string, at: number, size: number): Numbers {
  if (dtype === "float32") return new Float32Array(buffer, at, size);
  if (dtype === "uint8") return new Uint8Array(buffer, at, size);
  if (dtype === "int64") return new BigInt64Array(buffer, at, size);
  throw new Error(`An answer of the server holds numbers of the unknown type ${dtype}.`);
}

/** Row `k` of an array whose first axis is the orbit, without copying. */
export function row(array: PackedArray, k: number): PackedArray {
  const shape = array.shape.slice(1);
  const size = shape.reduce((product, side) => product * side, 1);
  return { data: array.data.subarray(k * size, (k + 1) * size), shape };
}

/** The array's numbers as float32; null where there is no such array. */
export function floats(array: PackedArray | undefined): Float32Array | null {
  if (array === undefined) return null;
  return array.data instanceof Float32Array ? array.data : Float32Array.from(array.data, Number);
}

/** Base64 text as bytes of their own. */
export function bytes(base64: string): ArrayBuffer {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found.buffer;
}
