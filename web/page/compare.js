// Elements as the kernels store them, and whether those found are those expected.
//
// Each element may be off by so much: nothing asks for the same bits, infinity for none. NaNs are all alike.
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

/**
 * Compares two arrays of elements, of which element i may be off by radii[i] and by tolerance · max(1, |expected|): how many are wrong, the
 * first of them, the greatest difference, and the greatest share of what is allowed.
 */
function compare(dtype, found, expected, tolerance, radii) {
  const { bytes, isFloat, read } = TYPES[dtype];
  const [a, b] = [found, expected].map((array) => new DataView(array.buffer, array.byteOffset, array.byteLength));
  const outcome = { elements: expected.length / bytes, wrong: 0, open: 0, off: 0, worst: 0, first: null };
  for (let i = 0; i < outcome.elements; i++) {
    const [x, y] = [read(a, i * bytes), read(b, i * bytes)];
    const allowed = (radii ? radii[i] : 0) + (isFloat ? tolerance * Math.max(1, Math.abs(y)) : 0);
    if (allowed === Infinity) outcome.open += 1;
    if (Object.is(x, y) || x === y || allowed === Infinity) continue; // NaN is NaN, and -0 is 0
    const off = Math.abs(Number(x) - Number(y));
    const isWrong = allowed === 0 || !(off <= allowed); // as Numbers, unequal integers may be equal
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
