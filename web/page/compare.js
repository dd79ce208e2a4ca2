// Elements as the kernels store them, and whether those found are those expected.
//
// Integers must have the same bits. Floats may differ by tolerance · max(1, |expected|); with a tolerance of 0 they must have the same
// bits too. NaNs are all alike.
"use strict";

/** A float of one or two bytes from its bits: so many bits of fraction below so many of exponent. */
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

/** Element types: how many bytes, and how they are read. `isFloat` is what may be rounded. */
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

/** Base64 to bytes. */
const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** Compares two arrays of elements: how many are wrong, the first of them, and the greatest difference among floats. */
function compare(dtype, found, expected, tolerance) {
  const { bytes, isFloat, read } = TYPES[dtype];
  const [a, b] = [found, expected].map((array) => new DataView(array.buffer, array.byteOffset, array.byteLength));
  const outcome = { elements: expected.length / bytes, wrong: 0, worst: 0, first: null };
  for (let at = 0; at < expected.length; at += bytes) {
    const [x, y] = [read(a, at), read(b, at)];
    if (isFloat && x !== y) outcome.worst = Math.max(outcome.worst, Math.abs(x - y) / Math.max(1, Math.abs(y)) || 0);
    if (agree(x, y, isFloat, tolerance)) continue;
    outcome.wrong += 1;
    outcome.first ??= { index: at / bytes, found: String(x), expected: String(y) };
  }
  return outcome;
}

function agree(found, expected, isFloat, tolerance) {
  if (Object.is(found, expected)) return true; // NaN is NaN, and -0 is not 0
  if (!isFloat || tolerance === 0) return false;
  return found === expected || Math.abs(found - expected) <= tolerance * Math.max(1, Math.abs(expected));
}
