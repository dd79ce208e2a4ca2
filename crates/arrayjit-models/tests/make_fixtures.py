"""Writes the files of `fixtures`: configurations with the logits that transformers computes for them.

    pip install torch transformers gguf
    python tests/make_fixtures.py

Weights are no part of the files. `generated` makes them from the names of the tensors, and so does
`tests/it/generated.rs`.
"""

import json
import pathlib
import zlib

import gguf
import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent / "fixtures"
VOCABULARY = 256
STEPS = 64


def words(name, count):
    """Random numbers of 32 bits, from the checksum of a name."""
    x = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(zlib.crc32(name.encode()))
    x &= np.uint64(0xFFFFFFFF)
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        x ^= x >> np.uint64(15)
        x = x * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def generated(name, shape):
    """Values that bf16 and f16 hold too: 7 bits in -1 to 1, smaller for matrices, around 1 for factors."""
    values = (words(name, int(np.prod(shape))) >> np.uint64(25)).astype(np.float32) / 64 - 1
    if len(shape) == 1:
        scaled = values / 8 + (1 if name.endswith("weight") else 0)
    else:
        scaled = values if "emb" in name or "wte" in name else values / 2
    return torch.from_numpy(scaled.reshape(shape))


def with_weights(model):
    state = {name: generated(name, tuple(value.shape)) for name, value in model.state_dict().items()
             if value.dtype == torch.float32 and name != "lm_head.weight"}
    head = model.state_dict().get("lm_head.weight")
    if head is not None and not getattr(model.config, "tie_word_embeddings", False):
        state["lm_head.weight"] = generated("lm_head.weight", tuple(head.shape))
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    return {name: list(value.shape) for name, value in state.items()}


def rounded(values):
    return [round(float(value), 6) for value in values]


def language_model(file, config):
    config.vocab_size = VOCABULARY
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    tensors = with_weights(model)
    prompt = [(7 * at * at + 11 * at + 3) % VOCABULARY for at in range(70)]
    text = list(prompt)
    margin = 1e9
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0]
        for _ in range(STEPS):
            step = model(torch.tensor([text])).logits[0, -1]
            best = torch.topk(step, 2).values
            margin = min(margin, float(best[0] - best[1]))
            text.append(int(step.argmax()))
    config.architectures = [type(model).__name__]
    print(file, "margin", margin, "largest", float(logits.abs().max()), "tokens", len(set(text[70:])))
    assert margin > 1e-3, "a greedy choice is too close"
    written = {
        "config": json.loads(config.to_json_string(use_diff=False)),
        "tensors": tensors,
        "prompt": prompt,
        "logits": {str(length): rounded(logits[length - 1]) for length in (1, 2, 70)},
        "greedy": text[70:],
    }
    keep(written, file)


def keep(written, file):
    config = written.get("config", {})
    for key in ("transformers_version", "id2label", "label2id", "_name_or_path", "name_or_path", "dtype"):
        config.pop(key, None)
    (FOLDER / f"{file}.json").write_text(json.dumps(written, separators=(",", ":"), sort_keys=True) + "\n")


SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=160, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def language_models():
    t = transformers
    language_model("llama", t.LlamaConfig(**SMALL))
    language_model("llama_scaled", t.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True, rope_parameters={
        "rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}))
    language_model("llama_yarn", t.LlamaConfig(**SMALL, tie_word_embeddings=True, head_dim=16, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 40}))
    language_model("mistral", t.MistralConfig(**SMALL, sliding_window=24))
    language_model("qwen2", t.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=24, max_window_layers=1))
    language_model("qwen3", t.Qwen3Config(**SMALL, head_dim=12, tie_word_embeddings=True))
    language_model("gemma", t.GemmaConfig(**SMALL, head_dim=16))
    language_model("gemma2", t.Gemma2Config(**SMALL, head_dim=16, query_pre_attn_scalar=24, sliding_window=24,
                                            attn_logit_softcapping=5.0, final_logit_softcapping=30.0))
    language_model("gemma3", t.Gemma3TextConfig(**SMALL, head_dim=16, query_pre_attn_scalar=24,
                                                sliding_window=24, layer_types=["sliding_attention", "full_attention"]))
    language_model("gpt2", t.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=160, bos_token_id=1, eos_token_id=2))


def bert():
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=48)
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    tensors = with_weights(model)
    texts = [[2, *(5 + (at * (length + 3)) % 35 for at in range(length)), 3] for length in (1, 4, 9, 33)]
    means, firsts = [], []
    with torch.no_grad():
        for text in texts:
            states = model(torch.tensor([text])).last_hidden_state[0]
            means.append(rounded(torch.nn.functional.normalize(states.mean(0), dim=0)))
            firsts.append(rounded(states[0]))
    config.architectures = ["BertModel"]
    keep({"config": json.loads(config.to_json_string(use_diff=False)), "tensors": tensors, "texts": texts,
          "means": means, "firsts": firsts}, "bert")


# The encoding of each tensor of a GGUF file, by its name there, and the bytes of f16 factors in a block.
ENCODINGS = {
    "token_embd": "Q8_0", "attn_q": "Q4_K", "attn_k": "Q5_0", "attn_v": "Q6_K", "attn_output": "Q4_1",
    "ffn_gate": "Q4_0", "ffn_up": "Q5_K", "ffn_down": "Q5_1", "output": "BF16",
}
FACTORS = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
           "Q6_K": [208]}


def blocks(name, encoding, shape):
    """Bytes of blocks; the factors are 2**-9, which llama.cpp's are about, and the offsets -2**-9."""
    kind = gguf.GGMLQuantizationType[encoding]
    size, bytes_ = gguf.GGML_QUANT_SIZES[kind]
    count = int(np.prod(shape)) // size * bytes_
    raw = (words(name, count) >> np.uint64(24)).astype(np.uint8)
    if encoding == "BF16":
        values = generated(name, shape).numpy() / 4
        raw = (values.reshape(-1).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    else:
        raw = raw.reshape(-1, bytes_)
        factor = 2.0 ** -13 if encoding.endswith("_K") else 2.0 ** -9
        for at in FACTORS[encoding]:
            sign = -8 if at == 2 and not encoding.endswith("_K") else 1
            raw[:, at:at + 2] = np.array([sign * factor], dtype=np.float16).view(np.uint8)
    values = gguf.quants.dequantize(raw.reshape(shape[0], -1), kind).astype(np.float32)
    return torch.from_numpy(values.reshape(shape))


def gguf_llama():
    size, heads = 256, 4
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=size, intermediate_size=size, num_hidden_layers=1,
        num_attention_heads=heads, num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval()
    layer = "model.layers.0."
    names = {
        "token_embd": "model.embed_tokens", "output": "lm_head", "attn_q": layer + "self_attn.q_proj",
        "attn_k": layer + "self_attn.k_proj", "attn_v": layer + "self_attn.v_proj",
        "attn_output": layer + "self_attn.o_proj", "ffn_gate": layer + "mlp.gate_proj",
        "ffn_up": layer + "mlp.up_proj", "ffn_down": layer + "mlp.down_proj",
    }
    state = {}
    for name, target in names.items():
        shape = tuple(model.state_dict()[target + ".weight"].shape)
        values = blocks(name, ENCODINGS[name], shape)
        if name in ("attn_q", "attn_k"):  # rows of heads are stored in pairs
            values = values.reshape(-1, size // heads // 2, 2, shape[1]).transpose(1, 2).reshape(shape)
        state[target + ".weight"] = values
    for name, target in (("attn_norm", layer + "input_layernorm"), ("ffn_norm", layer + "post_attention_layernorm"),
                         ("output_norm", "model.norm")):
        state[target + ".weight"] = generated(name + ".weight", (size,))
    missing = model.load_state_dict(state, strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys, missing
    prompt = [(5 * at * at + 3 * at + 1) % VOCABULARY for at in range(20)]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0]
    print("gguf largest", float(logits.abs().max()))
    keep({"prompt": prompt, "logits": {"1": rounded(logits[0]), "20": rounded(logits[19])}}, "gguf")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    language_models()
    bert()
    gguf_llama()
