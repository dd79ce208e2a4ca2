"""Writes tests of operators of `com.microsoft` as an archive: `generate_microsoft.py FILE.tar.xz`.

The inputs come from a generator with a fixed seed. The archive is the same in every run on one processor.
"""

import math
import sys

import ml_dtypes
import numpy as np
from archive import write
from cases import case, floats, integers, model, results


def functions():
    x, bias = floats(2, 3, 8), floats(8)
    yield case("bias_add", "BiasAdd", [x, bias, 2 * x], expected=3 * x + bias)
    left, right = np.split(3 * x + bias, 2, axis=-1)
    gelu = right * (1 + np.vectorize(math.erf)(right / math.sqrt(2))) / 2
    expected = (left * gelu).astype(np.float32)
    yield case("bias_split_gelu", "BiasSplitGelu", [3 * x, bias], expected=expected)
    yield case("bias_gelu", "BiasGelu", [x * 3, bias])
    yield case("fast_gelu", "FastGelu", [x * 3])
    yield case("fast_gelu_bias", "FastGelu", [x * 3, bias])
    yield case("gelu", "Gelu", [x * 3])
    yield case("quick_gelu", "QuickGelu", [x * 3], alpha=1.5)
    yield case("trilu", "Trilu", [x, np.array(1, np.int64)], upper=0)
    a, b, c = floats(5, 4), floats(4, 6), floats(6)
    yield case("fused_matmul", "FusedMatMul", [floats(2, 4, 5), floats(2, 6, 4)], transA=1, transB=1, alpha=0.5)
    yield case("fused_matmul_plain", "FusedMatMul", [a, b])
    yield case("fused_gemm_relu", "FusedGemm", [a, b, c], activation="Relu", alpha=0.5, beta=2.0)
    yield case("fused_gemm_leaky", "FusedGemm", [a, b, c], activation="LeakyRelu", activation_alpha=0.2)
    image, filters = floats(1, 3, 6, 6), floats(4, 3, 3, 3)
    yield case("fused_conv_relu", "FusedConv", [image, filters, floats(4)], activation="Relu", pads=[1, 1, 1, 1])
    sum_ = floats(1, 4, 4, 4)
    yield case("fused_conv_sum", "FusedConv", [image, filters, floats(4), sum_], activation="Relu")
    yield case(
        "fused_conv_clip", "FusedConv", [image, filters], activation="Clip", activation_params=[-0.5, 0.5], strides=[2, 2]
    )


def normalizations():
    x, skip, gamma, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    name = "SkipLayerNormalization"
    yield case("skip_layer_norm", name, [x, skip, gamma, beta], epsilon=1e-5)
    yield case("skip_layer_norm_bias", name, [x, skip, gamma, beta, bias], [True, False, False, True])
    yield case("skip_layer_norm_no_beta", name, [x, skip, gamma])
    yield case("skip_layer_norm_broadcast", name, [x, floats(3, 8), gamma, beta])
    name = "SkipSimplifiedLayerNormalization"
    yield case("skip_simplified", name, [x, skip, gamma, bias], [True, False, False, True], epsilon=1e-6)
    yield case("skip_simplified_plain", name, [x, skip, gamma])
    yield case("simplified", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-6, axis=-1)
    image, scale, shift = floats(1, 3, 2, 8), floats(8), floats(8)
    groups = image.reshape(1, 6, 4, 2)
    mean, variance = (f(groups, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    expected = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(image.shape) * scale + shift
    yield case("group_norm", "GroupNorm", [image, scale, shift], expected=expected, groups=4, activation=0)
    expected = (expected / (1 + np.exp(-expected))).astype(np.float32)
    yield case("group_norm_silu", "GroupNorm", [image, scale, shift], expected=expected, groups=4, activation=1)
    words, positions, segments = floats(11, 8), floats(5, 8), floats(2, 8)
    ids, kinds, mask = integers(0, 11, 2, 4), integers(0, 2, 2, 4), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    name, tables = "EmbedLayerNormalization", [words, positions, segments, gamma, beta]
    yield case("embed", name, [ids, kinds, *tables, mask], 3)
    yield case("embed_no_segments", name, [ids, None, words, positions, None, gamma, beta], 2)
    yield case("embed_positions", name, [ids, kinds, *tables, None, integers(0, 5, 2, 4)], 2)


def attentions():
    x, weights, bias = floats(2, 4, 8), floats(8, 24), floats(24)
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
    yield case("attention", "Attention", [x, weights, bias], num_heads=2)
    yield case("attention_mask", "Attention", [x, weights, bias, mask], num_heads=2)
    yield case("attention_causal", "Attention", [x, weights, bias], num_heads=2, unidirectional=1)
    yield case("attention_lengths", "Attention", [x, weights, bias, np.array([4, 2], np.int32)], num_heads=2)
    yield case("attention_ranges", "Attention", [x, weights, bias, np.array([4, 3, 0, 1], np.int32)], num_heads=2)
    yield case("attention_mask_3d", "Attention", [x, weights, bias, integers(0, 2, 2, 4, 4)], num_heads=2)
    past = floats(2, 2, 2, 3, 4)
    yield case("attention_past", "Attention", [x, weights, bias, None, past], 2, num_heads=2, unidirectional=1)
    yield case("attention_bias", "Attention", [x, weights, bias, mask, None, floats(1, 2, 4, 4)], num_heads=2)
    wide = [x, floats(8, 28), floats(28)]
    yield case("attention_widths", "Attention", wide, num_heads=2, qkv_hidden_sizes=[8, 8, 12], scale=0.3)

    name, q, k, v = "MultiHeadAttention", floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 12)
    yield case("multi_head", name, [q, k, v], num_heads=2)
    yield case("multi_head_bias", name, [q, k, v, floats(28)], num_heads=2)
    padding = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    yield case("multi_head_padding", name, [q, k, v, None, padding], num_heads=2)
    yield case("multi_head_scores", name, [q, k, v, None, None, floats(2, 2, 4, 5)], num_heads=2, scale=0.4)
    same = [q, floats(2, 4, 8), floats(2, 4, 8)]
    yield case("multi_head_causal", name, same, num_heads=2, unidirectional=1)
    pasts = [floats(2, 2, 3, 4), floats(2, 2, 3, 4)]
    yield case("multi_head_past", name, [*same, None, None, None, *pasts], 3, num_heads=2)
    whole, keys = floats(2, 4, 2, 3, 4), floats(2, 5, 2, 2, 4)
    parts = [whole[:, :, :, at].reshape(2, 4, 8) for at in range(3)]
    yield case("multi_head_packed", name, [whole], same_as=parts, num_heads=2)
    parts = [keys[:, :, :, at].reshape(2, 5, 8) for at in range(2)]
    yield case("multi_head_packed_keys", name, [q, keys], same_as=[q, *parts], num_heads=2)
    yield case("multi_head_cross", name, [q, floats(2, 2, 5, 4), floats(2, 2, 5, 4)], num_heads=2)

    angles = np.outer(np.arange(16), [1, 0.1]).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    name, positions = "RotaryEmbedding", np.array([[0, 1, 2, 3], [5, 6, 7, 8]], np.int64)
    yield case("rotary", name, [q, positions, cos, sin])
    yield case("rotary_offset", name, [q, np.array([3], np.int64), cos, sin], interleaved=1)
    yield case("rotary_heads", name, [floats(2, 2, 4, 4), positions, cos, sin])
    partly = [floats(2, 4, 16), positions, cos, sin]
    yield case("rotary_part", name, partly, num_heads=2, rotary_embedding_dim=4)

    name, heads = "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2}
    empty = [floats(2, 2, 0, 16)] * 2
    angles = np.outer(np.arange(16), 0.5 ** np.arange(8)).astype(np.float32)
    tables = [np.cos(angles), np.sin(angles)]
    prompt = [np.array([3, 3], np.int32), np.array(4, np.int32)]
    q, k, v = floats(2, 4, 64), floats(2, 4, 32), floats(2, 4, 32)
    yield case("grouped_prompt", name, [q, k, v, *empty, *prompt], 3, constants=[6], **heads)
    yield case("grouped_rotary", name, [q, k, v, *empty, *prompt, *tables], 3, constants=[6], do_rotary=1, **heads)
    packed = [floats(2, 4, 128), None, None, *empty, *prompt, *tables]
    yield case("grouped_packed", name, packed, 3, constants=[6], do_rotary=1, rotary_interleaved=1, **heads)
    past = [floats(2, 2, 5, 16), floats(2, 2, 5, 16)]
    step = [floats(2, 1, 64), floats(2, 1, 32), floats(2, 1, 32)]
    lengths = [np.array([5, 5], np.int32), np.array(6, np.int32)]
    yield case("grouped_step", name, [*step, *past, *lengths, *tables], 3, constants=[6], do_rotary=1, **heads)
    yield case("grouped_window", name, [*step, *past, *lengths], 3, constants=[6], local_window_size=3, **heads)
    yield case("grouped_softcap", name, [*step, *past, *lengths], 3, constants=[6], softcap=0.5, scale=0.7, **heads)
    lengths = [np.array([5, 3], np.int32), np.array(6, np.int32)]
    # onnxruntime clears what is behind the positions of an element of the batch.
    for array in past:
        array[1, :, 3:] = 0
    yield case("grouped_lengths", name, [*step, *past, *lengths, *tables], 3, constants=[6], do_rotary=1, **heads)


def blocks():
    for bits in (2, 4, 8):
        size, k, n = 16, 40, 6
        count = -(-k // size)
        packed = integers(0, 256, n, count, size * bits // 8, dtype=np.uint8)
        scales, zeros = floats(n, count), integers(0, 256, n, -(-count * bits // 8), dtype=np.uint8)
        options = dict(K=k, N=n, bits=bits, block_size=size, accuracy_level=1)
        x = floats(2, 3, k)
        yield case(f"blocks_{bits}", "MatMulNBits", [x, packed, scales], constants=[1, 2], **options)
        if bits == 2:
            continue
        given = [x, packed, scales, zeros]
        yield case(f"blocks_{bits}_zeros", "MatMulNBits", given, constants=[1, 2, 3], **options)
        given = [*given, None, floats(n)]
        yield case(f"blocks_{bits}_bias", "MatMulNBits", given, constants=[1, 2, 3, 5], **options)
        yield case(f"blocks_{bits}_inputs", "MatMulNBits", [x, packed, scales], **options)


def quantized():
    scale, zero = lambda value: np.array(value, np.float32), lambda value: np.array(value, np.uint8)
    x, z = integers(0, 256, 4, 8, dtype=np.uint8), integers(0, 256, 4, 8, dtype=np.uint8)
    weights, signed = integers(0, 256, 8, 6, dtype=np.uint8), integers(-128, 128, 8, 6, dtype=np.int8)
    pair = [x, scale(0.02), zero(120), z, scale(0.03), zero(7), scale(0.05), zero(100)]
    yield case("qlinear_add", "QLinearAdd", pair)
    yield case("qlinear_mul", "QLinearMul", pair)
    one = [x, scale(0.03), zero(120), scale(0.004), zero(3)]
    yield case("qlinear_sigmoid", "QLinearSigmoid", one)
    yield case("qlinear_leaky", "QLinearLeakyRelu", [*one[:3], scale(0.03), zero(60)], alpha=0.1)
    yield case("qlinear_softmax", "QLinearSoftmax", [*one[:3], scale(1 / 256), zero(0)], axis=-1, opset=13)
    parts = [scale(0.04), zero(128), x, scale(0.02), zero(120), z, scale(0.03), zero(7)]
    yield case("qlinear_concat", "QLinearConcat", parts, axis=1, constants=[0, 1, 3, 4, 6, 7])
    image = integers(0, 256, 1, 3, 6, 6, dtype=np.uint8)
    options = dict(kernel_shape=[2, 2], strides=[2, 2])
    yield case("qlinear_average", "QLinearAveragePool", [image, *one[1:3], scale(0.02), zero(110)], **options)
    last = [np.ascontiguousarray(image.transpose(0, 2, 3, 1)), *one[1:3], scale(0.02), zero(110)]
    yield case("qlinear_average_last", "QLinearAveragePool", last, channels_last=1, **options)
    yield case("qlinear_global", "QLinearGlobalAveragePool", [image, *one[1:3], scale(0.02), zero(110)])
    numbers = floats(4, 8) * 3
    dynamic = [numbers, weights, scale(0.02), zero(130), floats(6)]
    yield case("dynamic_matmul", "DynamicQuantizeMatMul", dynamic, constants=[1, 2, 3])
    columns = [numbers, signed, np.abs(floats(6)) + 0.01]
    yield case("dynamic_matmul_columns", "DynamicQuantizeMatMul", columns, constants=[1, 2])
    to_float = [x, weights, scale(0.02), scale(0.03), zero(120), zero(130), floats(6)]
    yield case("matmul_to_float", "MatMulIntegerToFloat", to_float, constants=[1])
    columns = [x, signed, scale(0.02), np.abs(floats(6)) + 0.01, zero(120), np.zeros(6, np.int8)]
    yield case("matmul_to_float_columns", "MatMulIntegerToFloat", columns, constants=[1])
    gemm = [x, scale(0.02), zero(120), signed, scale(0.03), np.array(0, np.int8), integers(-500, 500, 6)]
    yield case("qgemm_float", "QGemm", gemm, constants=[3])
    yield case("qgemm", "QGemm", [*gemm, scale(0.1), zero(128)], constants=[3])
    tokens = integers(0, 256, 2, 4, 8, dtype=np.uint8)
    projection = [tokens, integers(0, 256, 8, 24, dtype=np.uint8), floats(24), scale(0.01), scale(0.01)]
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
    yield case("qattention", "QAttention", [*projection, mask, zero(120), zero(130)], constants=[1], num_heads=2)
    yield case("quantize", "QuantizeLinear", [numbers, scale(0.02), zero(120)])
    yield case("dequantize", "DequantizeLinear", [x, scale(0.02), zero(120)])


def nodes(operator, inputs, domain="com.microsoft", **attributes):
    """What onnxruntime computes for one node with one result."""
    return results(*model("", operator, inputs, [True], (), domain, attributes))[0]


def codes():
    k, n, x = 24, 5, floats(3, 24)
    for name, table in (("fp4", 0), ("nf4", 1)):
        packed, most = integers(0, 256, (k * n + 1) // 2, dtype=np.uint8), np.abs(floats(-(-k * n // 16)))
        options = dict(K=k, N=n, block_size=16, quant_type=table)
        yield case(f"codes_{name}", "MatMulBnb4", [x, packed, most], constants=[1, 2], **options)
    yield case("codes_inputs", "MatMulBnb4", [x, packed, most], **options)

    name, positions = "GatherBlockQuantized", np.array([[3, -1, 0], [6, 6, 2]], np.int64)
    packed, scales = integers(0, 256, 7, 24, dtype=np.uint8), floats(7, 3)
    options = dict(gather_axis=0, quantize_axis=1, block_size=16)
    yield case("gather_packed", name, [packed, positions, scales], constants=[0, 2], **options)
    zeros = integers(0, 256, 7, 2, dtype=np.uint8)
    yield case("gather_packed_zeros", name, [packed, positions, scales, zeros], constants=[0, 2, 3], **options)
    scales, zeros = floats(7, 2), integers(0, 256, 7, 2, dtype=np.uint8)
    yield case("gather_bytes", name, [packed, positions, scales, zeros], bits=8, **options)
    for kind in (ml_dtypes.int4, ml_dtypes.uint4):
        low = -8 if kind == ml_dtypes.int4 else 0
        table = integers(low, low + 16, 20, 5, 3).astype(kind)
        scales, zeros = floats(2, 5, 3), integers(low, low + 16, 2, 5, 3).astype(kind)
        options = dict(gather_axis=1, quantize_axis=0, block_size=16)
        yield case(
            f"gather_{kind.__name__}", name, [table, positions % 5, scales, zeros], constants=[0, 2, 3], **options
        )
    half = [table, positions % 5, scales.astype(np.float16)]
    yield case("gather_half", name, half, constants=[0, 2], **options)


def more():
    matrices = floats(2, 4, 4) + 2 * np.eye(4, dtype=np.float32)
    yield case("inverse", "Inverse", [matrices])
    image, filters, bias = floats(2, 5, 6, 4), floats(6, 3, 3, 2), floats(6)
    first, options = image.transpose(0, 3, 1, 2), dict(strides=[2, 1], pads=[1, 0, 1, 2], group=2)
    expected = nodes("Conv", [first, filters.transpose(0, 3, 1, 2), bias], domain="", **options)
    expected = np.ascontiguousarray(expected.transpose(0, 2, 3, 1))
    given = [image, filters, bias]
    yield case("conv_last", "NhwcConv", given, constants=[1, 2], expected=expected, **options)
    yield case("conv_last_inputs", "NhwcConv", given, expected=expected, **options)

    lengths = [3, 1, 2]
    ends, tokens = np.cumsum([0, *lengths]).astype(np.int32), sum(lengths)
    offsets = np.array([[0, 1, 2], [3, 6, 7], [4, 5, 8]], np.int32)
    q, k, v, bias, scores = floats(tokens, 8), floats(tokens, 8), floats(tokens, 12), floats(28), floats(3, 2, 3, 3)
    whole = floats(tokens, 2, 3, 4)
    parts = [whole[:, :, at].reshape(tokens, 8) for at in range(3)]

    def each(q, k, v, bias=None, scores=None, **options):
        rows = []
        for at, length in enumerate(lengths):
            own = [array[None, ends[at] : ends[at + 1]] for array in (q, k, v)]
            added = None if scores is None else scores[at : at + 1, :, :length, :length]
            rows.append(nodes("MultiHeadAttention", [*own, bias, None, added], num_heads=2, **options)[0])
        return np.concatenate(rows)

    name, sequences = "PackedMultiHeadAttention", [offsets, ends]
    yield case("packed_heads", name, [q, k, v, bias, *sequences], expected=each(q, k, v, bias), num_heads=2)
    expected = each(q, k, v, None, scores, scale=0.4)
    yield case(
        "packed_scores", name, [q, k, v, None, *sequences, scores], expected=expected, num_heads=2, scale=0.4
    )
    yield case("packed_parts", name, [whole, None, None, None, *sequences], expected=each(*parts), num_heads=2)
    x, weights, bias = floats(tokens, 6), floats(6, 24), floats(24)
    expected = each(*np.split(x @ weights + bias, 3, axis=-1))
    yield case("packed_attention", "PackedAttention", [x, weights, bias, *sequences], expected=expected, num_heads=2)


def optimized():
    """Operators that onnxruntime's quantizer and optimizer put in place of quantized ones."""
    scale, zero = lambda value: np.array(value, np.float32), lambda value: np.array(value, np.uint8)
    keep, x, z = integers(0, 2, 4, 1).astype(bool), *(integers(0, 256, 4, 8, dtype=np.uint8) for _ in range(2))
    pair = [x, scale(0.02), zero(120), z[:1], scale(0.03), zero(7), scale(0.04), zero(100)]
    yield case("qlinear_where", "QLinearWhere", [keep, *pair], constants=[2, 3, 5, 6, 7, 8])

    tables = [integers(0, 256, *shape, dtype=np.uint8) for shape in ((11, 8), (5, 8), (2, 8), (8,), (8,))]
    scales, zeros = [scale(0.01 * (3 + at)) for at in range(5)], [zero(100 + 9 * at) for at in range(5)]
    ids, kinds, mask = integers(0, 11, 2, 4), integers(0, 2, 2, 4), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    yield case("qembed", "QEmbedLayerNormalization", [ids, kinds, *tables, mask, *scales, *zeros], 2)
    without = [list(given) for given in (tables, scales, zeros)]
    for given in without:
        given[2] = None
    operands = [ids, None, *without[0], None, *without[1], *without[2]]
    yield case("qembed_no_segments", "QEmbedLayerNormalization", operands, 2)

    steps, bias, options = floats(5, 2, 3), floats(2, 32), dict(hidden_size=4, direction="bidirectional")
    for name, shape in (("direction", (2,)), ("row", (2, 16))):
        given, decoded = [], []
        for inputs in (3, 4):
            matrix, factor = integers(-128, 128, 2, inputs, 16, dtype=np.int8), np.abs(floats(*shape)) / 100
            offset, wide = integers(-9, 9, *shape, dtype=np.int8), (2, 1, -1)
            numbers = (matrix - offset.reshape(wide).astype(np.float32)) * factor.reshape(wide)
            decoded.append(np.ascontiguousarray(numbers.transpose(0, 2, 1)))
            given.append([matrix, factor, offset])
        (w, *w_scale), (r, *r_scale) = given
        # onnxruntime rounds inputs and states to integers too.
        expected = nodes("LSTM", [steps, *decoded, bias], domain="", **options)
        operands = [steps, w, r, bias, None, None, None, None, *w_scale, *r_scale]
        constants = [1, 2, 8, 9, 10, 11]
        yield case(
            f"lstm_{name}", "DynamicQuantizeLSTM", operands, constants=constants, expected=expected, **options
        )


def main(target):
    families = (attentions, blocks, functions, normalizations, quantized, codes, more, optimized)
    write(target, [file for family in families for files in family() for file in files])


main(sys.argv[1])
