//! Test only: a tiny HTTP server that gives prepared answers and keeps what it was asked.

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

pub(crate) struct HttpServer {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl HttpServer {
    /// One prepared (status, body) per request; every connection is closed after its answer.
    pub(crate) async fn answering(answers: Vec<(u16, String)>) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        let task = tokio::spawn(async move {
            for (status, body) in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                kept.lock().await.push(request);
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                socket.write_all(head.as_bytes()).await.unwrap();
                socket.write_all(body.as_bytes()).await.unwrap();
                socket.shutdown().await.ok();
            }
        });
        HttpServer { url, requests, task }
    }

    /// Head and body of every request so far.
    pub(crate) async fn requests(&self) -> Vec<String> {
        self.requests.lock().await.clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            if body.len() >= length.map_or(0, |l| l.parse().unwrap()) {
                return text;
            }
        }
        let n = socket.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the client hung up: {text}");
        bytes.extend_from_slice(&buffer[..n]);
    }
}
