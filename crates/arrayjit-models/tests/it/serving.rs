//! The example `serve`, asked over HTTP by several clients at once.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
};

use arrayjit_models::{
    BatchThread, ContinuousBatch, EmbeddingModel, GenerateOptions, LanguageModel, LoadOptions, Message,
};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::{
    batch::endless,
    embeddings::number_tokenizer,
    generated::{fixture, folder, write_json},
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
        ("/v1/chat/completions", json!({"messages": []}), 400, "the prompt has no tokens"),
        ("/v1/models", json!({}), 404, "expected POST"),
    ] {
        let (found, answer) = posted_json(address, path, &body);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(found == status && message.starts_with(problem), "{found}: {answer}");
    }
}
