//! Server-sent events as they arrive.

use super::http::Http;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// One block of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

/// An open stream.
#[derive(Debug)]
pub struct Sse {
    body: Incoming,
    text: String,
}

impl Sse {
    /// Opens a stream and reads its first line, so that nothing sent from now on is missed.
    pub async fn open(http: &Http, path: &str, bearer: &str, last: Option<&str>) -> Result<Sse, String> {
        let bearer = format!("Bearer {bearer}");
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(last.map(|last| ("last-event-id", last)));
        let response = http.open("GET", path, &headers, "").await?;
        let (status, body) = (response.status(), response.into_body());
        if status != 200 {
            let text = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
            return Err(format!("{path}: {status} {}", String::from_utf8_lossy(&text)));
        }
        let mut sse = Sse { body, text: String::new() };
        while !sse.text.contains("retry: 2000\n\n") {
            sse.more().await?;
        }
        sse.text = sse.text.replacen("retry: 2000\n\n", "", 1);
        Ok(sse)
    }

    async fn more(&mut self) -> Result<(), String> {
        let frame = self.body.frame().await.ok_or("the stream ended")?.map_err(|e| e.to_string())?;
        if let Some(data) = frame.data_ref() {
            self.text.push_str(std::str::from_utf8(data).map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    /// The next block that is no comment.
    pub async fn next(&mut self) -> Result<Block, String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let mut found = Block::default();
                for line in block.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => found.id = Some(id.to_owned()),
                        Some(("event", event)) => found.event = Some(event.to_owned()),
                        Some(("data", data)) => found.data.push_str(data),
                        Some(_) | None => {}
                    }
                }
                self.text = rest.to_owned();
                if found != Block::default() {
                    return Ok(found);
                }
                continue;
            }
            self.more().await?;
        }
    }
}
