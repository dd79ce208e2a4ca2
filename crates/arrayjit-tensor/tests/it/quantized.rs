//! Products with quantized weights: every block format against its definition, and every backend against the
//! interpreter.

use arrayjit_tensor::{
    Backend, BlockFormat, DType, Graph, HostArray, ModelState, Params, QuantizedArrays, QuantizedFormat,
    Tensor, TensorError,
};

/// Bytes that look random, and halves of moderate size at these positions of each block.
fn blocks(count: usize, size: usize, halves: &[usize]) -> Vec<u8> {
    let mut state = 1u32;
    let mut bytes: Vec<u8> = (0..count * size)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    for block in bytes.chunks_exact_mut(size) {
        for &at in halves {
            block[at + 1] = 0x28 | block[at + 1] & 0x83; // an exponent near that of 1/16
        }
    }
    bytes
}

fn half(bytes: &[u8]) -> f32 {
    HostArray::from_bytes(DType::F16, [1], &bytes[..2]).unwrap().values()[0] as f32
}

/// Weights of a block, as the format defines them: in the order of the output.
fn q4_0(block: &[u8]) -> Vec<f32> {
    let integers = block[2..].iter().map(|b| b & 15).chain(block[2..].iter().map(|b| b >> 4));
    integers.map(|q| (f32::from(q) - 8.0) * half(block)).collect()
}

fn q4_1(block: &[u8]) -> Vec<f32> {
    let integers = block[4..].iter().map(|b| b & 15).chain(block[4..].iter().map(|b| b >> 4));
    integers.map(|q| f32::from(q).mul_add(half(block), half(&block[2..]))).collect()
}

fn q5_0(block: &[u8]) -> Vec<f32> {
    let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    let low = block[6..].iter().map(|b| b & 15).chain(block[6..].iter().map(|b| b >> 4));
    let integers = low.enumerate().map(|(at, q)| i32::from(q) | ((high >> at & 1) << 4) as i32);
    integers.map(|q| (q - 16) as f32 * half(block)).collect()
}

fn q5_1(block: &[u8]) -> Vec<f32> {
    let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    let low = block[8..].iter().map(|b| b & 15).chain(block[8..].iter().map(|b| b >> 4));
    let integers = low.enumerate().map(|(at, q)| u32::from(q) + (high >> at & 1) * 16);
    integers.map(|q| (q as f32).mul_add(half(block), half(&block[2..]))).collect()
}

fn q8_0(block: &[u8]) -> Vec<f32> {
    block[2..].iter().map(|&b| f32::from(b as i8) * half(block)).collect()
}

fn q4_k(block: &[u8]) -> Vec<f32> {
    with_offsets(block, &block[16..], |_, _| 0)
}

fn q5_k(block: &[u8]) -> Vec<f32> {
    with_offsets(block, &block[48..], |part, at| block[16 + at] >> part & 1)
}

/// Weights of eight parts, of which `low` has the low halves and `fifth` the fifth bits.
fn with_offsets(block: &[u8], low: &[u8], fifth: impl Fn(usize, usize) -> u8) -> Vec<f32> {
    let (scale, least, packed) = (half(block), half(&block[2..]), &block[4..16]);
    let mut weights = Vec::new();
    for part in 0..8 {
        let (s, m) = if part < 4 {
            (packed[part] & 63, packed[4 + part] & 63)
        } else {
            let high = packed[4 + part];
            ((high & 15) + (packed[part - 4] >> 6) * 16, (high >> 4) + (packed[part] >> 6) * 16)
        };
        let (scale, least) = (scale * f32::from(s), least * f32::from(m));
        for (at, &byte) in low[part / 2 * 32..][..32].iter().enumerate() {
            let q = if part % 2 == 0 { byte & 15 } else { byte >> 4 } + 16 * fifth(part, at);
            weights.push(f32::from(q).mul_add(scale, -least));
        }
    }
    weights
}

fn q6_k(block: &[u8]) -> Vec<f32> {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let mut weights = vec![0.0; 256];
    for n in 0..2 {
        for l in 0..32 {
            let (ql, qh, sc) = (&low[64 * n..], high[32 * n + l], &scales[8 * n + l / 16..]);
            let integers =
                [ql[l] & 15, ql[l + 32] & 15, ql[l] >> 4, ql[l + 32] >> 4].map(|q| i32::from(q) - 32);
            for (quarter, q) in integers.into_iter().enumerate() {
                let q = q + (i32::from(qh >> (2 * quarter) & 3) << 4);
                let scale = half(&block[208..]) * f32::from(sc[2 * quarter] as i8);
                weights[128 * n + 32 * quarter + l] = q as f32 * scale;
            }
        }
    }
    weights
}

/// A format, the bytes of a block, where its halves are, and its weights.
type Format = (BlockFormat, usize, &'static [usize], fn(&[u8]) -> Vec<f32>);

const FORMATS: &[Format] = &[
    (BlockFormat::Q4_0, 18, &[0], q4_0),
    (BlockFormat::Q4_1, 20, &[0, 2], q4_1),
    (BlockFormat::Q5_0, 22, &[0], q5_0),
    (BlockFormat::Q5_1, 24, &[0, 2], q5_1),
    (BlockFormat::Q8_0, 34, &[0], q8_0),
    (BlockFormat::Q4K, 144, &[0, 2], q4_k),
    (BlockFormat::Q5K, 176, &[0, 2], q5_k),
    (BlockFormat::Q6K, 210, &[208], q6_k),
];

fn constants(graph: &Graph, weights: &QuantizedArrays) -> Result<Vec<Tensor>, TensorError> {
    weights.arrays.iter().map(|array| graph.constant(array.clone())).collect()
}

/// The rows of the weights at these positions.
fn rows(backend: &str, weights: &QuantizedArrays, positions: &[i32]) -> Result<HostArray, TensorError> {
    let graph = Graph::new();
    let given = graph.input("positions", [positions.len()], DType::I32)?;
    let y = given.quantized_rows(weights.format, &constants(&graph, weights)?)?;
    let model = graph.compile(&ModelState::new(&Backend::open(backend)?, &Params::new(1))?, &[&y])?;
    let positions = HostArray::from_slice(positions, [positions.len()]).unwrap();
    Ok(model.run_with(&[("positions", &positions)], &[])?.remove(0))
}

/// `x`, of shape `[rows, inputs]`, times the weights.
fn product(backend: &str, weights: &QuantizedArrays, x: &HostArray) -> Result<HostArray, TensorError> {
    let graph = Graph::new();
    let arrays = constants(&graph, weights)?;
    let given = graph.input("x", x.dims().iter().copied(), DType::F32)?;
    let y = given.quantized_linear(weights.format, &arrays)?;
    let state = ModelState::new(&Backend::open(backend)?, &Params::new(1))?;
    let model = graph.compile(&state, &[&y])?;
    Ok(model.run_with(&[("x", x)], &[])?.remove(0))
}

fn matrix([rows, columns]: [usize; 2], element: impl Fn(usize, usize) -> f32) -> HostArray {
    let values: Vec<f32> = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
    HostArray::from_slice(&values, [rows, columns]).unwrap()
}

#[test]
fn blocks_have_the_weights_of_their_format() {
    let (outputs, inputs) = (40, 256);
    let identity = matrix([inputs, inputs], |a, b| if a == b { 1.0 } else { 0.0 });
    for (format, size, halves, weights_of) in FORMATS {
        let count = outputs * inputs / weights_of(&vec![0; *size]).len();
        let bytes = blocks(count, *size, halves);
        let weights = QuantizedArrays::from_blocks(*format, [outputs, inputs], &bytes).unwrap();
        let expected: Vec<f32> = bytes.chunks_exact(*size).flat_map(weights_of).collect();
        let mut decoded = vec![0.0; expected.len()];
        format.decode(&bytes, &mut decoded).unwrap();
        assert_eq!(decoded, expected, "{format:?}");
        let found = product("inline", &weights, &identity).unwrap().values();
        for (at, found) in found.into_iter().enumerate() {
            let expected = expected[at % outputs * inputs + at / outputs];
            assert_eq!(found as f32, expected, "{format:?}: weight {at}");
        }
        let positions = [39, 0, 17, 39];
        let found = rows("inline", &weights, &positions).unwrap();
        let expected: Vec<f32> =
            positions.iter().flat_map(|&row| &expected[row as usize * inputs..][..inputs]).copied().collect();
        assert_eq!(found.as_slice::<f32>().unwrap(), expected, "{format:?}");
        assert_eq!(found.bytes(), rows("interpreter", &weights, &positions).unwrap().bytes(), "{format:?}");
    }
}

/// The weight of output `o` and input `k`, read from the arrays as their shapes define it.
fn packed_weight(weights: &QuantizedArrays, o: usize, k: usize) -> f32 {
    let arrays = weights.format.arrays();
    let block = weights.format.inputs() / weights.format.blocks();
    let element = |name: &str, column: usize| {
        let at = arrays.iter().position(|array| array.name == name)?;
        Some(weights.arrays[at].value(&[o / 64, column, o % 64]).unwrap() as f32)
    };
    let shared_by = weights.format.blocks() / arrays.last().unwrap().shape[1];
    let factor = |name: &str| {
        let shared = element(&format!("shared_{name}"), k / block / shared_by).unwrap_or(1.0);
        Some(element(name, k / block)? * shared)
    };
    let bytes = arrays[0].shape[2];
    let byte = weights.arrays[0].value(&[o / 64, k / block, k % block * bytes / block, o % 64]).unwrap();
    let integer = if bytes == block { byte } else { f64::from(byte as u8 >> (k % 2 * 4) & 15) };
    match factor("offsets") {
        Some(offset) => (integer as f32).mul_add(factor("scales").unwrap(), offset),
        None => (integer as f32 - if bytes == block { 0.0 } else { 8.0 }) * factor("scales").unwrap(),
    }
}

#[test]
fn rows_in_any_order_fill_the_lanes_of_their_panels() {
    let (outputs, inputs) = (130, 512);
    for (format, size, halves, weights_of) in FORMATS {
        let in_row = inputs / weights_of(&vec![0; *size]).len() * size;
        let bytes = blocks(outputs * in_row / size, *size, halves);
        let whole = QuantizedArrays::from_blocks(*format, [outputs, inputs], &bytes).unwrap();
        let expected: Vec<f32> = bytes.chunks_exact(*size).flat_map(weights_of).collect();
        for (at, expected) in expected.into_iter().enumerate() {
            let found = packed_weight(&whole, at / inputs, at % inputs);
            assert_eq!(found, expected, "{format:?}: weight {at}");
        }
        let mut parts = QuantizedArrays::zeros(whole.format).unwrap();
        let order: Vec<usize> = (0..outputs).map(|at| at * 37 % outputs).collect();
        for outputs in order.chunks(71) {
            let rows: Vec<u8> =
                outputs.iter().flat_map(|&o| &bytes[o * in_row..][..in_row]).copied().collect();
            parts.set_rows(outputs, *format, &rows).unwrap();
        }
        for (part, whole) in parts.arrays.iter().zip(&whole.arrays) {
            assert!(part.bytes() == whole.bytes(), "{format:?}");
        }
    }
}

#[test]
fn backends_have_the_bits_of_the_interpreter() {
    // The last two have one block in each row of weights.
    for (bits, block, outputs, inputs) in [
        (4, 32, 64, 256),
        (4, 16, 33, 90),
        (8, 32, 96, 128),
        (8, 16, 7, 40),
        (8, 32, 64, 32),
        (8, 128, 40, 96),
    ] {
        let format = QuantizedFormat::new([outputs, inputs], block, bits).unwrap();
        let weights = QuantizedArrays::pack(
            format,
            |o, k| (o * 31 + k * 17 + o * k) as u8,
            |o, b| ((1 + (o + b) % 7) as f32 / 64.0, (o % 5) as f32 / -16.0),
        );
        let weights = weights.unwrap();
        for rows in [1, 2, 3, 4, 7, 8, 9, 17, 20] {
            let x = matrix([rows, inputs], |m, k| ((m * 13 + k * 7) % 29) as f32 / 8.0 - 1.5);
            let expected = product("interpreter", &weights, &x).unwrap();
            assert_eq!(expected.dims().as_slice(), [rows, outputs]);
            for backend in ["inline", "multicore"] {
                let found = product(backend, &weights, &x).unwrap();
                assert!(found.bytes() == expected.bytes(), "{backend}, {format:?}, {rows} rows");
            }
        }
    }
}

#[test]
fn products_of_one_row_are_sums_of_blocks() {
    let (outputs, inputs) = (72, 512);
    for (format, size, halves, weights_of) in FORMATS {
        let count = outputs * inputs / weights_of(&vec![0; *size]).len();
        let bytes = blocks(count, *size, halves);
        let weights = QuantizedArrays::from_blocks(*format, [outputs, inputs], &bytes).unwrap();
        let decoded: Vec<f32> = bytes.chunks_exact(*size).flat_map(weights_of).collect();
        let x = matrix([1, inputs], |_, k| ((k * 7) % 29) as f32 / 8.0 - 1.5);
        let found = product("inline", &weights, &x).unwrap();
        for (row, found) in decoded.chunks_exact(inputs).zip(found.values()) {
            let terms = || row.iter().zip(x.values()).map(|(&w, x)| f64::from(w) * x);
            let (exact, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
            // A term with an offset is the sum of two that may be larger.
            assert!((found - exact).abs() <= 4e-6 * size, "{format:?}: {found}, {exact} of {size}");
        }
        for backend in ["interpreter", "multicore"] {
            let other = product(backend, &weights, &x).unwrap();
            assert!(other.bytes() == found.bytes(), "{backend}, {format:?}");
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let message = |error: TensorError| error.to_string();
    let new = |block, bits| message(QuantizedFormat::new([8, 64], block, bits).unwrap_err());
    assert_eq!(new(32, 3), "bits is 3, expected 4 or 8");
    assert_eq!(new(31, 4), "block is 31, expected a size of at most 65536, which is even with 4 bits");
    let of = |inputs, bytes: &[u8]| {
        message(QuantizedArrays::from_blocks(BlockFormat::Q4_0, [2, inputs], bytes).unwrap_err())
    };
    assert_eq!(of(40, &[]), "inputs is 40, expected a multiple of 32");
    assert_eq!(of(64, &[0; 3]), "bytes is 3, expected 2 times 36");
    let mut weights = QuantizedArrays::from_blocks(BlockFormat::Q4_0, [2, 64], &[0; 72]).unwrap();
    let mut set = |outputs: &[usize], blocks, bytes| {
        message(weights.set_rows(outputs, blocks, &vec![0; bytes]).unwrap_err())
    };
    assert_eq!(set(&[1, 2], BlockFormat::Q4_0, 72), "output is 2, expected less than 2");
    assert_eq!(set(&[1, 0], BlockFormat::Q4_0, 71), "bytes is 71, expected 2 times 36");
    assert_eq!(set(&[1], BlockFormat::Q4_1, 40), "blocks is Q4_1, expected the format of the weights");
    let decode =
        |bytes: &[u8], weights| message(BlockFormat::Q6K.decode(bytes, &mut vec![0.0; weights]).unwrap_err());
    assert_eq!(decode(&[0; 210], 255), "weights is 255, expected a multiple of 256");
    assert_eq!(decode(&[0; 210], 512), "bytes is 210, expected 2 times 210");
}
