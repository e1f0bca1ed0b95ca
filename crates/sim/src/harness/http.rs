//! HTTP/1.1 over one kept-alive connection, as bytes.

use super::soon;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection; opened on first use and again after it broke.
#[derive(Debug)]
pub struct Http {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body as text.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The `data` of the wrapper; a refusal fails.
    pub fn data(&self) -> Value {
        let mut json = self.json();
        assert_eq!(self.status, 200, "{json}");
        json["data"].take()
    }

    /// The error code of a refusal.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("no error code in {self:?}")).to_owned()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A request being put together.
#[derive(Debug)]
pub struct Request<'h> {
    http: &'h mut Http,
    head: String,
    host: Option<String>,
}

impl Http {
    /// A connection that opens with its first request.
    pub fn new(address: SocketAddr) -> Http {
        Http { address, stream: None }
    }

    /// Begins a request.
    pub fn request(&mut self, method: &str, path: &str) -> Request<'_> {
        let host = Some(self.address.to_string());
        Request { http: self, head: format!("{method} {path} HTTP/1.1\r\n"), host }
    }

    /// Begins a POST.
    pub fn post(&mut self, path: &str) -> Request<'_> {
        self.request("POST", path)
    }

    /// A GET with a bearer.
    pub async fn get(&mut self, path: &str, bearer: &str) -> Answer {
        self.request("GET", path).bearer(bearer).send().await
    }

    /// Sends bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let tcp = TcpStream::connect(self.address).await?;
                tcp.set_nodelay(true)?;
                self.stream.insert(BufReader::with_capacity(64 << 10, tcp))
            }
        };
        stream.get_mut().write_all(bytes).await
    }

    /// Reads one answer.
    pub async fn answer(&mut self) -> Result<Answer> {
        let (status, headers) = self.answer_head().await?;
        let find = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let mut body = Vec::new();
        if find("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else {
            let length = find("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
            body.resize(length, 0);
            self.reader()?.read_exact(&mut body).await?;
        }
        if find("connection").is_some_and(|v| v.eq_ignore_ascii_case("close")) {
            self.stream = None;
        }
        Ok(Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }

    fn reader(&mut self) -> Result<&mut BufReader<TcpStream>> {
        self.stream.as_mut().ok_or_else(|| Error::from(ErrorKind::NotConnected))
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader()?.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Reads status and headers of one answer.
    pub async fn answer_head(&mut self) -> Result<(u16, Vec<(String, String)>)> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok((status, headers))
    }

    /// Reads one chunk of a chunked body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line().await?, 16).map_err(|_| ErrorKind::InvalidData)?;
        let mut chunk = vec![0; size];
        self.reader()?.read_exact(&mut chunk).await?;
        self.line().await?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads this many bytes of a body.
    pub(super) async fn exactly(&mut self, length: usize) -> Result<String> {
        let mut body = vec![0; length];
        self.reader()?.read_exact(&mut body).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Whether the other end has closed; waits for it.
    pub async fn closed(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let mut rest = Vec::new();
        soon("the close", stream.read_to_end(&mut rest)).await.map_or(true, |_| true)
    }
}

impl Request<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.head, "{name}: {value}\r\n");
        self
    }

    /// Shows a credential.
    pub fn bearer(self, secret: &str) -> Self {
        if secret.is_empty() { self } else { self.header("authorization", &format!("Bearer {secret}")) }
    }

    /// Claims another host.
    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Sends without a body; a broken connection fails the test.
    pub async fn send(self) -> Answer {
        soon("an answer", self.try_send()).await.unwrap()
    }

    /// Sends a JSON body; a broken connection fails the test.
    pub async fn json(self, body: &Value) -> Answer {
        self.body(body.to_string().as_bytes()).await
    }

    /// Sends these bytes as the body; a broken connection fails the test.
    pub async fn body(self, body: &[u8]) -> Answer {
        soon("an answer", self.try_body(body)).await.unwrap()
    }

    /// Sends without a body.
    pub async fn try_send(self) -> Result<Answer> {
        self.exchange(None).await
    }

    /// Sends these bytes as the body.
    pub async fn try_body(self, body: &[u8]) -> Result<Answer> {
        self.exchange(Some(body)).await
    }

    /// Sends head and body and reads nothing yet.
    pub async fn try_begin(self, body: Option<&[u8]>) -> Result<()> {
        let mut head = self.head;
        if let Some(host) = &self.host {
            let _ = write!(head, "host: {host}\r\n");
        }
        if let Some(body) = body {
            if !head.contains("\r\ncontent-type:") {
                head.push_str("content-type: application/json\r\n");
            }
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.http.raw(&bytes).await
    }

    async fn exchange(self, body: Option<&[u8]>) -> Result<Answer> {
        let Request { http, head, host } = self;
        let sent = Request { http: &mut *http, head, host }.try_begin(body).await;
        // A server that refuses early may close its end before it has read all: its answer still counts.
        let answer = match sent {
            Err(error) if http.stream.is_none() => Err(error),
            _ => http.answer().await,
        };
        if answer.is_err() {
            http.stream = None;
        }
        answer
    }
}
