// Decodes elements as kernels store them, and compares computed elements with the expected ones.
//
// Each element may deviate by an allowed amount: 0 requires equality, and infinity accepts any value. Any NaN
// equals any other NaN.
"use strict";

/**
 * Decodes a float of one or two bytes with a sign bit, `exponentBits` bits of exponent and `fractionBits`
 * bits of fraction.
 */
function narrowFloat(bits, exponentBits, fractionBits, hasInfinity) {
  const sign = bits >> (exponentBits + fractionBits) ? -1 : 1;
  const top = (1 << exponentBits) - 1;
  const exponent = (bits >> fractionBits) & top;
  const fraction = bits & ((1 << fractionBits) - 1);
  const bias = top >> 1;
  if (hasInfinity && exponent === top) return fraction ? NaN : sign * Infinity;
  if (!hasInfinity && exponent === top && fraction === (1 << fractionBits) - 1) return NaN;
  const unit = 2 ** -fractionBits;
  return exponent === 0
    ? sign * fraction * unit * 2 ** (1 - bias)
    : sign * (1 + fraction * unit) * 2 ** (exponent - bias);
}

/** Element types: size in bytes and decoder. `isFloat` marks types that the tolerance applies to. */
const TYPES = {
  bool: { bytes: 1, read: (view, at) => view.getUint8(at) },
  u8: { bytes: 1, read: (view, at) => view.getUint8(at) },
  i8: { bytes: 1, read: (view, at) => view.getInt8(at) },
  u16: { bytes: 2, read: (view, at) => view.getUint16(at, true) },
  i32: { bytes: 4, read: (view, at) => view.getInt32(at, true) },
  u32: { bytes: 4, read: (view, at) => view.getUint32(at, true) },
  i64: { bytes: 8, read: (view, at) => view.getBigInt64(at, true) },
  u64: { bytes: 8, read: (view, at) => view.getBigUint64(at, true) },
  u32x4: { bytes: 16, read: (view, at) => (view.getBigUint64(at + 8, true) << 64n) | view.getBigUint64(at, true) },
  f64: { bytes: 8, isFloat: true, read: (view, at) => view.getFloat64(at, true) },
  f32: { bytes: 4, isFloat: true, read: (view, at) => view.getFloat32(at, true) },
  bf16: { bytes: 2, isFloat: true, read: (view, at) => narrowFloat(view.getUint16(at, true), 8, 7, true) },
  f16: { bytes: 2, isFloat: true, read: (view, at) => narrowFloat(view.getUint16(at, true), 5, 10, true) },
  fp8_e5m2: { bytes: 1, isFloat: true, read: (view, at) => narrowFloat(view.getUint8(at), 5, 2, true) },
  fp8_e4m3fn: { bytes: 1, isFloat: true, read: (view, at) => narrowFloat(view.getUint8(at), 4, 3, false) },
};

/** Decodes base64 to bytes. */
const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/**
 * Compares two arrays. Element i may deviate by radii[i] + tolerance · max(1, |expected|). Returns the
 * number of wrong elements, the first of them, the greatest deviation, and the greatest deviation as a
 * fraction of the allowed one.
 */
function compare(dtype, found, expected, tolerance, radii) {
  const { bytes, isFloat, read } = TYPES[dtype];
  const [a, b] = [found, expected].map((array) => new DataView(array.buffer, array.byteOffset, array.byteLength));
  const outcome = { elements: expected.length / bytes, wrong: 0, open: 0, off: 0, worst: 0, first: null };
  for (let i = 0; i < outcome.elements; i++) {
    const [x, y] = [read(a, i * bytes), read(b, i * bytes)];
    const allowed = (radii ? radii[i] : 0) + (isFloat ? tolerance * Math.max(1, Math.abs(y)) : 0);
    if (allowed === Infinity) outcome.open += 1;
    if (Object.is(x, y) || x === y || allowed === Infinity) continue; // NaN equals NaN, and -0 equals 0
    const off = Math.abs(Number(x) - Number(y));
    const isWrong = allowed === 0 || !(off <= allowed); // unequal 64-bit integers may be equal as Numbers
    if (isWrong) {
      outcome.wrong += 1;
      outcome.first ??= { index: i, found: String(x), expected: String(y) };
    } else {
      outcome.off = Math.max(outcome.off, off);
      outcome.worst = Math.max(outcome.worst, off / allowed);
    }
  }
  return outcome;
}
