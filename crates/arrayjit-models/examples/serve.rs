//! Serves models over HTTP as OpenAI does: `serve ADDRESS CHAT-MODEL [EMBEDDING-MODEL]` answers
//! `POST /v1/chat/completions`, as a whole or as a stream and with tools, and `POST /v1/embeddings`.

use std::{
    error::Error,
    io::{self, Read, Write},
    iter, thread,
};

use arrayjit_models::{
    BatchAnswer, BatchThread, ContinuousBatch, Dialogue, EmbeddingModel, FinishReason, GenerateOptions,
    JsonValue, LoadOptions, Message, ModelError, ToolCall,
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
    let server = Server::http(address).map_err(|error| format!("{address}: {error}"))?;
    writeln!(io::stdout(), "http://{}/v1", server.server_addr())?;
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
    tools: Vec<JsonValue>,
    tool_choice: Value,
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
        let (messages, tools, tool_choice) = (Vec::new(), Vec::new(), json!("auto"));
        let (stream, temperature, top_p, stop) = (false, 1.0, 1.0, json!([]));
        ChatRequest { messages, tools, tool_choice, stream, max_tokens, temperature, top_p, seed, stop }
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
            Ok(Chat { stream: true, dialogue, answer }) => {
                return stream(&mut request.into_writer(), &dialogue, answer);
            }
            Ok(Chat { dialogue, answer, .. }) => {
                completion(&dialogue, answer).map_err(|error| (500, error.to_string()))
            }
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

/// A dialogue whose answer has begun.
struct Chat {
    stream: bool,
    dialogue: Dialogue,
    answer: BatchAnswer,
}

fn begin_chat(body: Value, chat: &BatchThread) -> Result<Chat, Failure> {
    let request: ChatRequest = serde_json::from_value(body).map_err(wrong)?;
    let ChatRequest { mut messages, tools, tool_choice, stream, max_tokens, temperature, top_p, seed, stop } =
        request;
    let stop = texts(stop)?;
    let options =
        GenerateOptions { max_tokens, temperature, top_p, seed, stop, ..GenerateOptions::default() };
    for call in messages.iter_mut().flat_map(|message| &mut message.tool_calls) {
        call.function.arguments = call.function.arguments.clone().parsed();
    }
    let tools = match tool_choice.as_str() {
        Some("auto") => tools,
        Some("none") => Vec::new(),
        None if tool_choice.is_null() => tools,
        _ => return Err((400, format!("`tool_choice` is {tool_choice}, expected \"auto\" or \"none\""))),
    };
    let dialogue = Dialogue { messages, tools };
    let answer = chat.chat(&dialogue, options).map_err(wrong)?;
    Ok(Chat { stream, dialogue, answer })
}

/// A text, or several.
fn texts(value: Value) -> Result<Vec<String>, Failure> {
    let list = if value.is_string() { json!([value]) } else { value };
    serde_json::from_value(list).map_err(wrong)
}

/// The reason of an end in the words of OpenAI.
fn finish_reason(answer: &BatchAnswer, message: &Message) -> Value {
    match answer.finish() {
        Some(FinishReason::Length) => json!("length"),
        Some(_) if !message.tool_calls.is_empty() => json!("tool_calls"),
        reason => json!(reason.map(|_| "stop")),
    }
}

/// The calls of an answer in the words of OpenAI: each has a name of its own, and arguments as a text.
fn tool_calls(answer: &Message) -> Result<Value, serde_json::Error> {
    let call = |(index, call): (usize, &ToolCall)| {
        let id: String = iter::repeat_with(fastrand::alphanumeric).take(9).collect();
        let arguments = serde_json::to_string(&call.function.arguments)?;
        let function = json!({"name": call.function.name, "arguments": arguments});
        Ok(json!({"index": index, "id": id, "type": "function", "function": function}))
    };
    answer.tool_calls.iter().enumerate().map(call).collect()
}

fn completion(dialogue: &Dialogue, mut answer: BatchAnswer) -> Result<Value, ModelError> {
    let texts = answer.by_ref().map(|token| Ok(token?.text)).collect::<Result<Vec<String>, ModelError>>()?;
    let (prompt, made) = (answer.prompt_tokens(), texts.len());
    let read = dialogue.parse_answer(&texts.concat());
    let mut message = json!({"role": "assistant", "content": read.content});
    if !read.tool_calls.is_empty() {
        message["tool_calls"] = tool_calls(&read)?;
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(&answer, &read)});
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made});
    Ok(json!({"id": "chatcmpl", "object": "chat.completion", "choices": [choice], "usage": usage}))
}

/// Writes each token as an event, in chunks of HTTP. A text that may begin a call waits for the end.
fn stream(writer: &mut impl Write, dialogue: &Dialogue, mut answer: BatchAnswer) -> io::Result<()> {
    write!(
        writer,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    let mut send = |data: &str| {
        write!(writer, "{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8)?;
        writer.flush()
    };
    let event = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": "chatcmpl", "object": "chat.completion.chunk", "choices": [choice]}).to_string()
    };
    let (mut text, mut sent) = (String::new(), 0);
    for token in answer.by_ref() {
        match token {
            Ok(token) => {
                text += &token.text;
                if dialogue.tools.is_empty() || !text.contains(['{', '[', '<']) {
                    send(&event(json!({"content": text[sent..]}), Value::Null))?;
                    sent = text.len();
                }
            }
            Err(error) => send(&json!({"error": {"message": error.to_string()}}).to_string())?,
        }
    }
    let read = dialogue.parse_answer(&text);
    let mut delta = json!({"content": read.content.get(sent..).unwrap_or_default()});
    if !read.tool_calls.is_empty() {
        delta["tool_calls"] = tool_calls(&read)?;
    }
    send(&event(delta, finish_reason(&answer, &read)))?;
    send("[DONE]")?;
    write!(writer, "0\r\n\r\n")?;
    writer.flush()
}

fn embed(mut body: Value, model: Option<&EmbeddingModel>) -> Result<Value, Failure> {
    let model = model.ok_or((404, "there is no embedding model".to_owned()))?;
    let input = body.get_mut("input").ok_or((400, "`input` is missing".to_owned()))?;
    let texts = texts(input.take())?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = model.embed(&texts).map_err(wrong)?;
    let tokens = texts.iter().map(|text| Ok(model.tokens(text)?.len()));
    let tokens = tokens.sum::<Result<usize, ModelError>>().map_err(wrong)?;
    let item = |(at, vector)| json!({"object": "embedding", "index": at, "embedding": vector});
    let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    Ok(json!({"object": "list", "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}))
}
