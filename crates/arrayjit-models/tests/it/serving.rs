//! The example `serve`, asked over HTTP by several clients at once.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
};

use arrayjit_models::{
    BatchThread, ContinuousBatch, EmbeddingModel, GenerateOptions, LanguageModel, LoadOptions, Message,
};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    batch::endless,
    embeddings::number_tokenizer,
    generated::{byte_tokenizer, fixture, folder, write_json},
};

#[path = "../../examples/serve.rs"]
#[expect(dead_code, reason = "a test calls no `main`")]
mod serve;

/// Posts a body. Returns the status and what follows the head.
fn post(address: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn posted_json(address: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, body) = post(address, path, body);
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn chats_streams_and_embeddings_are_served() {
    let chat = endless("llama", Dtype::F32);
    let template = json!("{% for message in messages %}{{ message.role[0] ~ message.content }}{% endfor %}");
    write_json(chat.path(), "tokenizer_config.json", &json!({"chat_template": template}));
    let sentences = folder(&fixture("bert"), Dtype::F32, &number_tokenizer());
    let embedding = EmbeddingModel::load(sentences.path()).unwrap();
    let vectors = embedding.embed(&["5 6", "7"]).unwrap();
    let batch = ContinuousBatch::load(chat.path(), 2, &LoadOptions::default()).unwrap();
    let mut model = LanguageModel::load(chat.path()).unwrap();
    let options = GenerateOptions { max_tokens: 12, ..GenerateOptions::default() };
    let mut alone = |text: &str| -> String {
        let tokens = model.chat(&[Message::user(text)], &options).unwrap();
        tokens.map(|token| token.unwrap().text).collect()
    };
    let expected = ["one", "two", "three"].map(|text| (text, alone(text)));
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_string();
    thread::spawn(move || serve::serve(&server, &BatchThread::spawn(batch), Some(&embedding)));
    let asked = |text: &str, stream: bool| {
        let messages = json!([{"role": "user", "content": text}]);
        json!({"model": "x", "messages": messages, "max_tokens": 12, "temperature": 0, "stream": stream})
    };
    let (address, asked) = (&address, &asked);
    thread::scope(|scope| {
        for (text, expected) in &expected {
            scope.spawn(move || {
                let (status, answer) = posted_json(address, "/v1/chat/completions", &asked(text, false));
                assert_eq!(status, 200, "{answer}");
                let message = json!({"role": "assistant", "content": expected});
                let choice = json!({"index": 0, "message": message, "finish_reason": "length"});
                assert_eq!(answer["choices"], json!([choice]));
                let tokens = text.len() + 1;
                assert_eq!(answer["usage"]["prompt_tokens"], tokens);
                assert_eq!(answer["usage"]["total_tokens"], tokens + 12);
            });
            scope.spawn(move || {
                let (status, events) = post(address, "/v1/chat/completions", &asked(text, true));
                assert_eq!(status, 200, "{events}");
                let events: Vec<&str> =
                    events.lines().filter_map(|line| line.trim_end().strip_prefix("data: ")).collect();
                assert_eq!(events.len(), 14, "12 tokens, the reason of the end, and the end");
                assert_eq!(events[13], "[DONE]");
                let choice =
                    |event: &&str| serde_json::from_str::<Value>(event).unwrap()["choices"][0].clone();
                let choices: Vec<Value> = events[..13].iter().map(choice).collect();
                let texts =
                    choices.iter().map(|choice| choice["delta"]["content"].as_str().unwrap_or_default());
                assert_eq!(texts.collect::<String>(), *expected);
                assert_eq!(choices[12]["finish_reason"], "length");
            });
        }
    });
    let input = json!({"model": "x", "input": ["5 6", "7"]});
    let (status, answer) = posted_json(address, "/v1/embeddings", &input);
    assert_eq!((status, answer["usage"]["total_tokens"].as_u64()), (200, Some(7)));
    for (at, vector) in vectors.iter().enumerate() {
        let found: Vec<f32> = serde_json::from_value(answer["data"][at]["embedding"].clone()).unwrap();
        assert_eq!(found, *vector);
    }
    for (path, body, status, problem) in [
        ("/v1/chat/completions", json!({"messages": 1}), 400, "invalid type"),
        ("/v1/embeddings", json!([]), 400, "`input` is missing"),
        ("/v1/chat/completions", json!({"messages": []}), 400, "the prompt has no tokens"),
        ("/v1/models", json!({}), 404, "expected POST"),
    ] {
        let (found, answer) = posted_json(address, path, &body);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(found == status && message.starts_with(problem), "{found}: {answer}");
    }
}

/// A model that has these tokens behind a `?`, and ends: its layers add nothing, and the head has a one where
/// a token follows another one.
fn reciting(tokens: &[&str]) -> TempDir {
    const SIZE: usize = 256;
    let first = SIZE - 1 - tokens.len();
    let follows = |token: usize| if token == usize::from(b'?') { first } else { token + 1 };
    let mut head = vec![0.0_f32; SIZE * SIZE];
    (0..SIZE - 1).for_each(|token| head[follows(token) * SIZE + token] = 1.0);
    let unit: Vec<f32> = (0..SIZE * SIZE).map(|at| if at % (SIZE + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let mut tensors = BTreeMap::from([
        ("model.embed_tokens".to_owned(), (vec![SIZE, SIZE], bytes(&unit))),
        ("lm_head".to_owned(), (vec![SIZE, SIZE], bytes(&head))),
        ("model.norm".to_owned(), (vec![SIZE], bytes(&[1.0; SIZE]))),
    ]);
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        tensors.insert(format!("model.layers.0.{norm}"), (vec![SIZE], bytes(&[1.0; SIZE])));
    }
    for matrix in
        ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"]
    {
        let zeros = bytes(&[0.0; SIZE * SIZE]);
        tensors.insert(format!("model.layers.0.{matrix}_proj"), (vec![SIZE, SIZE], zeros));
    }
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        (format!("{name}.weight"), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": SIZE, "hidden_size": SIZE,
        "intermediate_size": SIZE, "num_hidden_layers": 1, "num_attention_heads": 4,
        "max_position_embeddings": 512, "hidden_act": "silu", "eos_token_id": SIZE - 1,
    });
    write_json(folder.path(), "config.json", &config);
    let mut tokenizer = byte_tokenizer();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.retain(|_, id| id.as_u64() < Some(first as u64));
    vocabulary.extend(tokens.iter().zip(first..).map(|(token, id)| ((*token).to_owned(), json!(id))));
    vocabulary.insert("END".to_owned(), json!(SIZE - 1));
    write_json(folder.path(), "tokenizer.json", &tokenizer);
    folder
}

#[test]
fn calls_of_tools_are_served() {
    let chat = reciting(&[
        "Wait.",
        "<tool_call>",
        r#"{"name":"clock","#,
        r#""arguments":{"zone":1}}"#,
        "</tool_call>",
    ]);
    let template = json!(
        "{% for message in messages %}{% for call in message.tool_calls %}{{ call.function.arguments.zone }}\
         {% endfor %}{{ message.content }}{% endfor %}{{ '!' if tools }}?"
    );
    write_json(chat.path(), "tokenizer_config.json", &json!({"chat_template": template}));
    let batch = ContinuousBatch::load(chat.path(), 2, &LoadOptions::default()).unwrap();
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_string();
    thread::spawn(move || serve::serve(&server, &BatchThread::spawn(batch), None));
    let call = json!({"type": "function", "id": "abc", "function": {"name": "clock", "arguments": "{\"zone\": 12}"}});
    let asked = |choice: Value, stream: bool| {
        let messages = json!([
            {"role": "user", "content": "time"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "content": "noon", "tool_call_id": "abc"},
        ]);
        let tools = json!([{"type": "function", "function": {"name": "clock", "parameters": {}}}]);
        json!({"messages": messages, "tools": tools, "tool_choice": choice, "temperature": 0, "stream": stream})
    };
    let path = "/v1/chat/completions";
    let called = |choice: &Value| {
        let call = &choice["tool_calls"][0];
        assert_eq!(call["function"], json!({"name": "clock", "arguments": "{\"zone\":1}"}));
        assert_eq!(call["id"].as_str().unwrap().len(), 9);
    };
    for choice in [json!("auto"), Value::Null] {
        let (status, answer) = posted_json(&address, path, &asked(choice, false));
        assert_eq!((status, answer["usage"]["prompt_tokens"].as_u64()), (200, Some(12)), "time12noon!?");
        let choice = &answer["choices"][0];
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!("Wait."), &json!("tool_calls"))
        );
        called(&choice["message"]);
    }
    let (_, answer) = posted_json(&address, path, &asked(json!("none"), false));
    let choice = &answer["choices"][0];
    assert_eq!(
        (answer["usage"]["prompt_tokens"].as_u64(), &choice["finish_reason"]),
        (Some(11), &json!("stop"))
    );
    assert!(choice["message"]["content"].as_str().unwrap().ends_with("</tool_call>"));
    assert!(choice["message"].get("tool_calls").is_none());
    let (_, events) = post(&address, path, &asked(json!("auto"), true));
    let events: Vec<Value> = events
        .lines()
        .filter_map(|line| serde_json::from_str(line.trim_end().strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(events.len(), 2, "the text in front of the call, and the call");
    assert_eq!(events[0]["choices"][0]["delta"], json!({"content": "Wait."}));
    assert_eq!(events[1]["choices"][0]["finish_reason"], "tool_calls");
    called(&events[1]["choices"][0]["delta"]);
    let (status, answer) = posted_json(&address, path, &asked(json!("required"), false));
    assert_eq!(status, 400);
    assert_eq!(answer["error"]["message"], "`tool_choice` is \"required\", expected \"auto\" or \"none\"");
}
