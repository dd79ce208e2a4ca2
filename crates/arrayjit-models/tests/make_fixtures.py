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


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "Returns the weather in a city, with \"quotes\" & <marks>.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city, e.g. Kraków"},
        "days": {"type": "integer", "default": 1},
        "unit": {"type": "string", "enum": ["°C", "°F"]}}, "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "Returns the time.", "parameters": {"type": "object", "properties": {}}}}

# Each in the manner of a family: calls and results as marked JSON, as an own role, and with arguments as macros.
TOOL_TEMPLATES = {
    "marked": """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'You may call:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<result>\\n' }}{{- message.content }}{{- '\\n</result>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
""",
    "header": """\
{{- bos_token }}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' and tools is not none and loop.index0 == (1 if messages[0].role == 'system' else 0) %}
        {{- '[user]\\n' }}
        {%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}
        {{- message['content'] | trim + '[end]' }}
    {%- elif not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '[' + message['role'] + ']\\n' + message['content'] | trim + '[end]' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception('one call at a time') }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '[assistant]\\n' + tool_call.name + '(' }}
        {%- for name, value in tool_call.arguments.items() %}
            {{- name + '=' }}{{- value | tojson }}{% if not loop.last %}{{- ', ' }}{% endif %}
        {%- endfor %}
        {{- ')[end]' }}
    {%- else %}
        {{- '[ipython]\\n' }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '[end]' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '[assistant]\\n' }}{%- endif %}
""",
    "types": """\
{%- macro kind(schema) -%}
    {%- if schema.enum is defined -%}{{ schema.enum | map('tojson') | join(' | ') }}
    {%- elif schema.type == 'object' -%}
        {%- for name, inner in schema.properties | items -%}
            {{ name }}{{ '' if name in (schema.required or []) else '?' }}: {{ kind(inner) }}{{ '; ' if not loop.last }}
        {%- endfor -%}
    {%- else -%}{{ schema.type }}{%- endif -%}
{%- endmacro %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages if message.role == 'user' %}{% set ns.last = loop.index %}{% endfor %}
{{ ns.last }} questions
{% for tool in tools or [] %}
{{ tool.function.name }}({{ kind(tool.function.parameters) }}): {{ tool.function.description | trim }}
{% endfor %}
{% for message in messages %}
{{ message.role }}{% if message.name %} {{ message.name }}{% endif %}{% if message.tool_call_id is defined %} #{{ message.tool_call_id }}{% endif %}: {{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
 call {{ call.type }} {{ call.id if call.id is defined else '-' }} {{ call['function']['name'] }} {{ call['function'].get('arguments', {}) | tojson }}
{%- endfor %}

{% endfor %}
{{ messages | tojson }}
""",
}


def chat_tools():
    """Dialogues with tools, as transformers renders them."""
    call = lambda name, arguments, **more: {"type": "function", **more, "function": {"name": name, "arguments": arguments}}
    one = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Is it warm in Kraków? "},
        {"role": "assistant", "tool_calls": [call("weather", {"unit": "°C", "city": "Kraków", "days": 2})]},
        {"role": "tool", "content": "{\"now\": 22.5}", "name": "weather"},
        {"role": "assistant", "content": "Yes, 22.5 °C."},
        {"role": "user", "content": "And when's noon?"},
    ]
    two = [
        {"role": "user", "content": "Both, please."},
        {"role": "assistant", "content": "I ask.", "tool_calls": [
            call("clock", {}, id="a1"), call("weather", {"city": "Oslo \"x\"", "nested": {"b": [1, 2.5, None, True], "a": {}}}, id="b2")]},
        {"role": "tool", "content": "noon", "tool_call_id": "a1"},
        {"role": "tool", "content": "rain", "tool_call_id": "b2"},
    ]
    plain = [{"role": "user", "content": "Hi"}]
    cases = []
    for name, template in TOOL_TEMPLATES.items():
        for messages, tools in ((one, [WEATHER, CLOCK]), (two, [CLOCK]), (one, None), (plain, None), (plain, [WEATHER])):
            try:
                rendered, _ = transformers.utils.chat_template_utils.render_jinja_template(
                    conversations=[messages], tools=tools, chat_template=template, add_generation_prompt=True,
                    bos_token="<s>", eos_token="</s>")
                expected = rendered[0]
            except Exception as error:
                expected = None
                print(name, error)
            cases.append({"template": template, "messages": messages, "tools": tools or [], "text": expected})
    # The order of keys is part of the texts.
    (FOLDER / "chat_tools.json").write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


SAMPLE_RATE = 16000


def sound(count):
    """Two tones, one of which comes and goes, and noise."""
    at = np.arange(count)
    noise = (words("sound", count) >> np.uint64(24)).astype(np.float64) / 128 - 1
    tones = 0.5 * np.sin(at * 0.17) + 0.25 * np.sin(at * 0.9) * (at // 4000 % 2)
    return (tones * 0.8 + noise * 0.02).astype(np.float32)


def timed_segments(model, extractor, samples, generation, **spoken):
    """The segments between times of a whole recording, and the least difference of the two likeliest tokens."""
    features = extractor(samples, sampling_rate=SAMPLE_RATE, return_tensors="pt", truncation=False, padding="longest")
    for key, value in generation.items():
        setattr(model.generation_config, key, value)
    model.generation_config.pad_token_id = generation["eos_token_id"]
    made = model.generate(
        features.input_features, return_timestamps=True, return_segments=True, return_dict_in_generate=True,
        output_scores=True, max_new_tokens=STEPS, **spoken)
    margin = 1e9
    for segment in made["segments"][0]:
        for scores in segment["result"]["scores"]:
            best = torch.topk(torch.as_tensor(scores).reshape(-1), 2).values
            margin = min(margin, float(best[0] - best[1]))
    return [{"start": round(float(segment["start"]), 3), "end": round(float(segment["end"]), 3),
             "tokens": [int(token) for token in segment["tokens"]]} for segment in made["segments"][0]], margin


def speech_model(file, is_multilingual, **more):
    """A model that reads windows of a second, with the tokens that it makes of two windows and a half."""
    t = transformers
    config = t.WhisperConfig(
        vocab_size=300, num_mel_bins=20, d_model=32, encoder_layers=2, decoder_layers=4, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=96, max_source_positions=50,
        max_target_positions=96, pad_token_id=256, bos_token_id=256, eos_token_id=256, decoder_start_token_id=257,
        **more)
    config._attn_implementation = "eager"
    model = t.WhisperForConditionalGeneration(config).eval()
    state = {name: generated(name, tuple(value.shape)) for name, value in model.state_dict().items()
             if name != "proj_out.weight"}
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    extractor = t.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    generation = {"decoder_start_token_id": 257, "eos_token_id": 256, "no_timestamps_token_id": 262,
                  "is_multilingual": is_multilingual, "suppress_tokens": [10, 20, *range(256, 263)],
                  "begin_suppress_tokens": [32, 256]}
    if is_multilingual:
        generation.update(lang_to_id={"<|en|>": 258, "<|de|>": 259}, task_to_id={"translate": 260, "transcribe": 261})
    samples = sound(5 * SAMPLE_RATE // 2)
    windows, margin = [], 1e9
    for start in range(0, len(samples), SAMPLE_RATE):
        features = torch.from_numpy(np.asarray(extractor(
            samples[start:start + SAMPLE_RATE], sampling_rate=SAMPLE_RATE, return_tensors="np").input_features))
        with torch.no_grad():
            encoded = model.model.encoder(features)
            logits = lambda text: model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([text])).logits[0, -1]
            languages = logits([257])[258:260]
            if start == 0:
                language = int(languages.argmax())
            if is_multilingual:
                margin = min(margin, float((languages[0] - languages[1]).abs()))
            prompt = [257, 258 + language, 261, 262] if is_multilingual else [257, 262]
            text, steps = list(prompt), []
            for step in range(STEPS):
                values = logits(text)
                steps.append(values)
                values = values.clone()
                values[generation["suppress_tokens"]] = -torch.inf
                if step == 0:
                    values[generation["begin_suppress_tokens"]] = -torch.inf
                best = torch.topk(values, 2).values
                margin = min(margin, float(best[0] - best[1]))
                text.append(int(values.argmax()))
        windows.append({"language": ["en", "de"][int(languages.argmax())], "prompt": prompt, "tokens": text[len(prompt):],
                        "logits": {"0": rounded(steps[0]), "63": rounded(steps[63])}})
        if start == 0:
            mel = features[0].numpy()
    # Fewer words, so that times are likely.
    suppressed = sorted({*generation["suppress_tokens"], *(token for token in range(256) if token * 37 % 256 >= 8)})
    spoken = {"language": ["en", "de"][language], "task": "transcribe"} if is_multilingual else {}
    segments, time_margin = timed_segments(
        model, extractor, samples, {**generation, "suppress_tokens": suppressed}, **spoken)
    config.architectures = ["WhisperForConditionalGeneration"]
    print(file, "times", [(segment["start"], segment["end"]) for segment in segments], "margin", time_margin)
    assert time_margin > 1e-3, "a choice is too close"
    print(file, "margin", margin, "languages", [w["language"] for w in windows], len({*windows[0]["tokens"]}))
    assert margin > 1e-3, "a greedy choice is too close"
    keep({"config": json.loads(config.to_json_string(use_diff=False)), "generation": generation,
          "tensors": {name: list(value.shape) for name, value in state.items()},
          "preprocessor": json.loads(json.dumps({key: getattr(extractor, key) for key in (
              "feature_size", "sampling_rate", "hop_length", "n_fft", "chunk_length", "n_samples",
              "nb_max_frames", "padding_value")})),
          "mel": rounded(mel.reshape(-1)) if is_multilingual else [], "windows": windows, "timed": {"suppress_tokens": suppressed, "segments": segments}}, file)


def speech_models():
    speech_model("whisper", True, activation_function="gelu")
    speech_model("whisper_english", False, activation_function="relu", scale_embedding=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    language_models()
    bert()
    gguf_llama()
    chat_tools()
    speech_models()
