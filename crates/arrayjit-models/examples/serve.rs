//! Serves models over HTTP as OpenAI does: `serve ADDRESS CHAT-MODEL [EMBEDDING-MODEL]` answers
//! `POST /v1/chat/completions`, as a whole or as a stream, and `POST /v1/embeddings`.
#![allow(clippy::print_stdout, reason = "the program prints its address")]

use std::{
    error::Error,
    io::{self, Read, Write},
    thread,
};

use arrayjit_models::{
    BatchAnswer, BatchThread, ContinuousBatch, EmbeddingModel, FinishReason, GenerateOptions, LoadOptions,
    Message, ModelError,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tiny_http::{Header, Method, Request, Response, Server};

/// The longest body of a request.
const MAX_BODY_BYTES: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, chat, embedding @ ..] = &arguments[..] else {
        return Err("usage: serve ADDRESS CHAT-MODEL [EMBEDDING-MODEL]".into());
    };
    let batch = ContinuousBatch::load(chat, 8, &LoadOptions::default())?;
    let embedding = embedding.first().map(EmbeddingModel::load).transpose()?;
    let server = Server::http(address)?;
    println!("http://{}/v1", server.server_addr());
    serve(&server, &BatchThread::spawn(batch), embedding.as_ref());
    Ok(())
}

/// Answers requests until the server ends, each on a thread of its own.
pub(crate) fn serve(server: &Server, chat: &BatchThread, embedding: Option<&EmbeddingModel>) {
    thread::scope(|scope| {
        for request in server.incoming_requests() {
            scope.spawn(move || answer(request, chat, embedding)); // an error: the client has gone
        }
    });
}

#[derive(Deserialize)]
#[serde(default)]
struct ChatRequest {
    messages: Vec<Message>,
    stream: bool,
    #[serde(alias = "max_completion_tokens")]
    max_tokens: usize,
    temperature: f32,
    top_p: f32,
    seed: u64,
    stop: Value,
}

impl Default for ChatRequest {
    fn default() -> ChatRequest {
        let (max_tokens, seed) = (usize::MAX, fastrand::u64(..));
        let (messages, stream, stop) = (Vec::new(), false, json!([]));
        ChatRequest { messages, stream, max_tokens, temperature: 1.0, top_p: 1.0, seed, stop }
    }
}

/// A status of HTTP, and the reason.
type Failure = (u16, String);

fn wrong(error: impl ToString) -> Failure {
    (400, error.to_string())
}

fn answer(mut request: Request, chat: &BatchThread, embedding: Option<&EmbeddingModel>) -> io::Result<()> {
    let body = serde_json::from_reader(request.as_reader().take(MAX_BODY_BYTES)).map_err(wrong);
    let answered = match (request.method(), request.url()) {
        (Method::Post, "/v1/chat/completions") => match body.and_then(|body| begin_chat(body, chat)) {
            Ok((true, tokens)) => return stream(&mut request.into_writer(), tokens),
            Ok((false, tokens)) => completion(tokens).map_err(|error| (500, error.to_string())),
            Err(failure) => Err(failure),
        },
        (Method::Post, "/v1/embeddings") => body.and_then(|body| embed(body, embedding)),
        _ => Err((404, "expected POST /v1/chat/completions or POST /v1/embeddings".to_owned())),
    };
    let (status, body) = match answered {
        Ok(body) => (200, body),
        Err((status, problem)) => (status, json!({"error": {"message": problem, "code": status}})),
    };
    let header = Header::from_bytes("Content-Type", "application/json");
    let header = header.map_err(|()| io::Error::other("a header that is no ASCII"))?;
    request.respond(Response::from_string(body.to_string()).with_status_code(status).with_header(header))
}

/// Begins an answer. Returns whether it is a stream, and the tokens.
fn begin_chat(body: Value, chat: &BatchThread) -> Result<(bool, BatchAnswer), Failure> {
    let ChatRequest { messages, stream, max_tokens, temperature, top_p, seed, stop } =
        serde_json::from_value(body).map_err(wrong)?;
    let stop = texts(stop)?;
    let options =
        GenerateOptions { max_tokens, temperature, top_p, seed, stop, ..GenerateOptions::default() };
    Ok((stream, chat.chat(messages, options).map_err(wrong)?))
}

/// A text, or several.
fn texts(value: Value) -> Result<Vec<String>, Failure> {
    let list = if value.is_string() { json!([value]) } else { value };
    serde_json::from_value(list).map_err(wrong)
}

/// The reason of an end in the words of OpenAI.
fn finish_reason(answer: &BatchAnswer) -> Value {
    let name = |reason| if reason == FinishReason::Length { "length" } else { "stop" };
    json!(answer.finish().map(name))
}

fn completion(mut answer: BatchAnswer) -> Result<Value, ModelError> {
    let texts = answer.by_ref().map(|token| Ok(token?.text)).collect::<Result<Vec<String>, ModelError>>()?;
    let (prompt, made) = (answer.prompt_tokens(), texts.len());
    let message = Message::assistant(texts.concat());
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(&answer)});
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made});
    Ok(json!({"id": "chatcmpl", "object": "chat.completion", "choices": [choice], "usage": usage}))
}

/// Writes each token as an event, in chunks of HTTP.
fn stream(writer: &mut impl Write, mut answer: BatchAnswer) -> io::Result<()> {
    write!(
        writer,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    let mut send = |data: &str| {
        write!(writer, "{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8)?;
        writer.flush()
    };
    let event = |text: &str, reason: Value| {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": reason});
        json!({"id": "chatcmpl", "object": "chat.completion.chunk", "choices": [choice]}).to_string()
    };
    for token in answer.by_ref() {
        match token {
            Ok(token) => send(&event(&token.text, Value::Null))?,
            Err(error) => send(&json!({"error": {"message": error.to_string()}}).to_string())?,
        }
    }
    send(&event("", finish_reason(&answer)))?;
    send("[DONE]")?;
    write!(writer, "0\r\n\r\n")?;
    writer.flush()
}

fn embed(mut body: Value, model: Option<&EmbeddingModel>) -> Result<Value, Failure> {
    let model = model.ok_or((404, "there is no embedding model".to_owned()))?;
    let texts = texts(body["input"].take())?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = model.embed(&texts).map_err(wrong)?;
    let tokens = texts.iter().map(|text| Ok(model.tokens(text)?.len()));
    let tokens = tokens.sum::<Result<usize, ModelError>>().map_err(wrong)?;
    let item = |(at, vector)| json!({"object": "embedding", "index": at, "embedding": vector});
    let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    Ok(json!({"object": "list", "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}))
}
