//! A server for one page and one browser. It serves the page at an address of this machine, where browsers
//! offer WebGPU, and receives the page's report.
//!
//! It answers `GET /` with the page and accepts `POST /result`. It answers connections one after another,
//! each within a time limit.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The time limit of each read from a connection, and of each write to it.
const PER_CONNECTION: Duration = Duration::from_secs(5);
/// How long the server sleeps if no connection is waiting.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Maximum size of a report, in bytes.
const MAX_REPORT: usize = 64 << 20;
/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: u64 = 64 << 10;

/// A server that listens at its address.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
}

/// The kind of a request.
enum Request {
    Page,
    Report(String),
    Other,
}

impl Server {
    /// Listens at a free port of this machine.
    ///
    /// # Errors
    ///
    /// The system has no free port.
    pub(crate) fn open() -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("opening a port on 127.0.0.1")?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener })
    }

    /// The server's address.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves the page until its report arrives, and returns the report. `is_alive` says whether the browser
    /// still runs.
    ///
    /// # Errors
    ///
    /// No report arrives within `patience`, or the browser has ended.
    pub(crate) fn report(
        &self,
        html: &str,
        patience: Duration,
        mut is_alive: impl FnMut() -> bool,
    ) -> Result<String> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            let Ok((stream, _)) = self.listener.accept() else {
                if !is_alive() {
                    bail!("the browser ended before the page reported");
                }
                std::thread::sleep(BETWEEN_LOOKS);
                continue;
            };
            // An error of one connection, or a client that sends nothing, does not end the server.
            if let Ok(Some(report)) = answer(&stream, html) {
                return Ok(report);
            }
        }
        bail!("the page has not reported within {} seconds", patience.as_secs())
    }
}

/// Answers one request. If the request was a report, returns the report.
fn answer(stream: &TcpStream, html: &str) -> Result<Option<String>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PER_CONNECTION))?;
    stream.set_write_timeout(Some(PER_CONNECTION))?;
    match read(stream)? {
        Request::Page => respond(stream, "200 OK", html)?,
        Request::Report(report) => {
            respond(stream, "200 OK", "")?;
            return Ok(Some(report));
        }
        Request::Other => respond(stream, "404 Not Found", "")?,
    }
    Ok(None)
}

fn read(stream: &TcpStream) -> Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = reader.by_ref().take(MAX_HEAD);
    let (mut first, mut length) = (String::new(), 0);
    head.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut words = first.split(' ');
    Ok(match (words.next(), words.next()) {
        (Some("GET"), Some(path)) if path.split('?').next() == Some("/") => Request::Page,
        (Some("POST"), Some("/result")) if length <= MAX_REPORT => {
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            Request::Report(String::from_utf8(body)?)
        }
        _ => Request::Other,
    })
}

fn respond(mut stream: &TcpStream, status: &str, body: &str) -> Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(stream.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's answer to a request.
    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_served_and_the_report_taken() {
        let server = Server::open().unwrap();
        let address = server.address().unwrap();
        let visitor = std::thread::spawn(move || {
            let answers =
                ["GET /?report HTTP/1.1\r\n\r\n", "GET /favicon.ico HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n"]
                    .map(|request| ask(address, request));
            ask(address, "POST /result HTTP/1.1\r\ncontent-length: 4\r\n\r\ndone");
            answers
        });
        let report = server.report("<p>page</p>", Duration::from_secs(30), || true).unwrap();
        assert_eq!(report, "done");
        let [page, icon, nonsense] = visitor.join().unwrap();
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("<p>page</p>"), "{page}");
        assert!(icon.starts_with("HTTP/1.1 404") && nonsense.starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn nobody_is_waited_for_in_vain() {
        let server = Server::open().unwrap();
        let error = server.report("", Duration::from_millis(50), || true).unwrap_err();
        assert!(error.to_string().contains("has not reported"), "{error}");
        let error = server.report("", Duration::from_secs(30), || false).unwrap_err();
        assert!(error.to_string().contains("ended before"), "{error}");
    }
}
