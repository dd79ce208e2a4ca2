"""The speed of other programs at what `throughput` and `embed_throughput` measure, for docs/models.md.

peers.py embed FOLDER THREADS torch|onnxruntime    tokens per second of 32 texts
peers.py decode FILE.gguf THREADS llama|torch|torch-bf16
                                                   milliseconds a token behind a prompt of 100 tokens

llama.cpp is that of the package `cyllama`. torch has random weights in f32 or bf16, in the configuration of
the file, which the package `gguf` reads.
"""

import functools
import os
import statistics
import sys
import tempfile
import time

TEXTS, ROUNDS, PROMPT, TOKENS = 32, 20, 100, 64
SENTENCE = "A person with a folder from the hub embeds some sentences by eight lines of code. "


def embed(folder, threads, program):
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    texts = [SENTENCE * (1 + at % 4) for at in range(TEXTS)]
    encode = lambda: tokenizer(texts, padding=True, return_tensors="pt")
    tokens = int(encode()["attention_mask"].sum())
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if program == "onnxruntime":
        import onnxruntime

        file = os.path.join(tempfile.mkdtemp(), "model.onnx")
        given = tuple(encode()[name] for name in names)
        torch.onnx.export(model, given, file, input_names=names, dynamo=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        states = lambda batch: torch.from_numpy(session.run(None, {n: batch[n].numpy() for n in names})[0])
    else:
        states = lambda batch: model(**batch).last_hidden_state

    def run():
        batch = encode()
        mask = batch["attention_mask"].unsqueeze(-1)
        sums = (states(batch) * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(sums, dim=-1)

    with torch.inference_mode():
        run()
        rates = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            run()
            rates.append(tokens / (time.perf_counter() - start))
    print(f"{program}, {threads} threads, {tokens} tokens: {statistics.median(rates):.0f} tokens/s")


def decode(path, threads, program):
    prompt = [at * 7 % 256 for at in range(PROMPT)]
    step = DECODERS[program](path, threads, prompt)
    times = []
    for at in range(TOKENS):
        start = time.perf_counter()
        step(at)
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{program}, {threads} threads: {statistics.median(times):.2f} ms a token")


def llama_steps(path, threads, prompt):
    from cyllama.llama import llama_cpp

    llama_cpp.disable_logging()
    model = llama_cpp.LlamaModel(path, llama_cpp.LlamaModelParams())
    params = llama_cpp.LlamaContextParams()
    params.n_ctx, params.n_threads, params.n_threads_batch = 512, threads, threads
    context = llama_cpp.LlamaContext(model, params)
    context.decode(llama_cpp.llama_batch_get_one(prompt, 0))

    def step(at):
        context.decode(llama_cpp.llama_batch_get_one([at], len(prompt) + at))
        context.synchronize()

    return step


def torch_steps(path, threads, prompt, dtype="float32"):
    import gguf
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(threads)
    file = gguf.GGUFReader(path)
    number = lambda key: file.get_field(f"llama.{key}").contents()
    tensors = {tensor.name: tensor.shape for tensor in file.tensors}
    config = LlamaConfig(
        vocab_size=int(tensors["token_embd.weight"][1]),
        hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=number("attention.head_count"),
        num_key_value_heads=number("attention.head_count_kv"),
        tie_word_embeddings="output.weight" not in tensors,
    )
    model = LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()
    cache = DynamicCache(config=config)

    @torch.inference_mode()
    def read(tokens):
        return model(torch.tensor([tokens]), past_key_values=cache, use_cache=True).logits

    read(prompt)
    return lambda at: read([at])


DECODERS = {
    "llama": llama_steps,
    "torch": torch_steps,
    "torch-bf16": functools.partial(torch_steps, dtype="bfloat16"),
}
{"embed": embed, "decode": decode}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])
