//! A server for one page and one browser. It serves the page at an address of this machine, where browsers
//! offer WebGPU, and receives the page's report.
//!
//! It answers `GET /` with the page and accepts `POST /result`.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use tiny_http::{Header, Method, Request, Response};

/// How long the server waits for a request before it looks whether the browser still runs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Maximum size of a report, in bytes.
const MAX_REPORT: u64 = 64 << 20;

/// A server that listens at its address.
pub(crate) struct Server {
    http: tiny_http::Server,
}

impl Server {
    /// Listens at a free port of this machine.
    ///
    /// # Errors
    ///
    /// The system has no free port.
    pub(crate) fn open() -> Result<Server> {
        let http = tiny_http::Server::http((Ipv4Addr::LOCALHOST, 0))
            .map_err(|error| anyhow!(error).context("opening a port on 127.0.0.1"))?;
        Ok(Server { http })
    }

    /// The server's address.
    ///
    /// # Errors
    ///
    /// The server listens at no port.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.http.server_addr().to_ip().context("a server without a port")
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
        while let left = end.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            let Some(request) = self.http.recv_timeout(left.min(BETWEEN_LOOKS))? else {
                if !is_alive() {
                    bail!("the browser ended before the page reported");
                }
                continue;
            };
            // An error of one connection does not end the server.
            if let Ok(Some(report)) = answer(request, html) {
                return Ok(report);
            }
        }
        bail!("the page has not reported within {} seconds", patience.as_secs())
    }
}

/// Answers one request. If the request was a report, returns the report.
fn answer(mut request: Request, html: &str) -> Result<Option<String>> {
    let path = request.url().split('?').next().unwrap_or_default();
    match (request.method(), path) {
        (Method::Get, "/") => {
            let header = "Content-Type: text/html; charset=utf-8".parse::<Header>();
            let header = header.map_err(|()| anyhow!("a header that does not parse"))?;
            request.respond(Response::from_string(html).with_header(header))?;
            Ok(None)
        }
        (Method::Post, "/result") => {
            let mut report = String::new();
            request.as_reader().take(MAX_REPORT).read_to_string(&mut report)?;
            request.respond(Response::empty(200))?;
            Ok(Some(report))
        }
        _ => {
            request.respond(Response::empty(404))?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpStream};

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
            let answers = ["GET /?report", "GET /favicon.ico"]
                .map(|line| ask(address, &format!("{line} HTTP/1.1\r\nConnection: close\r\n\r\n")));
            let post = "POST /result HTTP/1.1\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone";
            ask(address, post);
            answers
        });
        let report = server.report("<p>page</p>", Duration::from_secs(30), || true).unwrap();
        assert_eq!(report, "done");
        let [page, icon] = visitor.join().unwrap();
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("<p>page</p>"), "{page}");
        assert!(icon.starts_with("HTTP/1.1 404"), "{icon}");
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
