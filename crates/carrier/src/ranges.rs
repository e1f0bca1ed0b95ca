//! Ranged bodies: kept content given out whole or in part (RFC 9110, section 14), piece by piece as it is read.

use crate::answer::{Refusal, RefusalBody, invalid_field};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rialto_model::Fault;
use rialto_node::{Content, Network};
use std::collections::VecDeque;
use std::ops::Range;

/// Content that is given out.
#[derive(Debug)]
pub struct KeptContent<'f> {
    /// One after the other.
    pub contents: Vec<Content>,
    /// The tag of this version of it: another one with other content.
    pub tag: u64,
    /// What it is; bytes if nobody has said.
    pub content_type: Option<&'f str>,
    /// What it is saved as.
    pub filename: Option<&'f str>,
}

impl KeptContent<'_> {
    /// Saved, never shown; a name that is not plain is given in the form of RFC 8187.
    fn disposition(&self) -> String {
        let Some(name) = self.filename else { return "attachment".to_owned() };
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' })
            .collect();
        let keeps = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let coded: String =
            name.bytes().map(|b| if keeps(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
        format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}")
    }
}

/// Answers with content, whole or a part of it. It is somebody's upload: never shown as a page of ours.
pub async fn answer(network: &Network, sent: &KeptContent<'_>, headers: &HeaderMap) -> Result<Response, Refusal> {
    let size: u64 = sent.contents.iter().map(|content| content.size).sum();
    let tag = format!("\"{}\"", sent.tag);
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    if text(header::IF_NONE_MATCH).is_some_and(|tags| tags.split(',').any(|t| t.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let part = match text(header::RANGE).filter(|_| text(header::IF_RANGE).is_none_or(|t| t == tag)) {
        Some(asked) => range(asked, size),
        None => WantedRange::All,
    };
    let (status, range) = match part {
        WantedRange::All => (StatusCode::OK, 0..size),
        WantedRange::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        WantedRange::Outside => {
            let all = format!("bytes */{size}");
            let fault = invalid_field("Range", &format!("there are {size} bytes"));
            let body = RefusalBody::new(416, &fault, None);
            let range = [(header::CONTENT_RANGE, all)];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, range, axum::Json(body)).into_response());
        }
    };
    let body = streamed(network, parts(&sent.contents, &range)).await?;
    let mut response = (status, body).into_response();
    let put = |response: &mut Response, name: header::HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    put(&mut response, header::CONTENT_TYPE, sent.content_type.unwrap_or("application/octet-stream"));
    put(&mut response, header::ETAG, &tag);
    put(&mut response, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    put(&mut response, header::ACCEPT_RANGES, "bytes");
    put(&mut response, header::CONTENT_DISPOSITION, &sent.disposition());
    put(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(&mut response, header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
    if status == StatusCode::PARTIAL_CONTENT {
        let part = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
        put(&mut response, header::CONTENT_RANGE, &part);
    }
    Ok(response)
}

/// What of each content lies in a range of all of them.
fn parts(contents: &[Content], range: &Range<u64>) -> VecDeque<(Content, Range<u64>)> {
    let mut from = 0;
    let mut out = VecDeque::new();
    for content in contents {
        let here = from..from + content.size;
        let (start, end) = (here.start.max(range.start), here.end.min(range.end));
        if start < end {
            out.push_back((*content, start - from..end - from));
        }
        from = here.end;
    }
    out
}

/// The bytes of parts, one after the other. The first is opened before anything is answered.
async fn streamed(network: &Network, mut parts: VecDeque<(Content, Range<u64>)>) -> Result<Body, Refusal> {
    let network = network.clone();
    let Some((content, range)) = parts.pop_front() else { return Ok(Body::empty()) };
    let first = network.download(&content, range).await?;
    let steps = futures_util::stream::unfold(Some((first, parts)), move |state| {
        let network = network.clone();
        async move {
            let (mut download, mut parts) = state?;
            loop {
                match download.next().await {
                    Ok(Some(piece)) => return Some((Ok(piece), Some((download, parts)))),
                    Ok(None) => {}
                    // The length was promised: an error breaks the answer off instead of ending it short.
                    Err(error) => return Some((Err(Fault::from(error).to_string()), None)),
                }
                let (content, range) = parts.pop_front()?;
                match network.download(&content, range).await {
                    Ok(next) => download = next,
                    Err(fault) => return Some((Err(fault.to_string()), None)),
                }
            }
        }
    });
    Ok(Body::from_stream(steps))
}

/// What a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum WantedRange {
    All,
    Part(Range<u64>),
    Outside,
}

/// One range of bytes; several, or anything else, count as none, which RFC 9110 allows.
fn range(text: &str, size: u64) -> WantedRange {
    let Some((from, to)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return WantedRange::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(from), number(to)) {
        (Some(from), _) if from >= size => WantedRange::Outside,
        (Some(from), None) if to.trim().is_empty() => WantedRange::Part(from..size),
        (Some(from), Some(to)) if from <= to => WantedRange::Part(from..to.saturating_add(1).min(size)),
        (None, Some(0)) if from.trim().is_empty() => WantedRange::Outside,
        (None, Some(last)) if from.trim().is_empty() && size > 0 => WantedRange::Part(size.saturating_sub(last)..size),
        (None, Some(_)) if from.trim().is_empty() => WantedRange::Outside,
        _ => WantedRange::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_several_contents() {
        let of = |sizes: &[u64], range: Range<u64>| -> Vec<(u64, Range<u64>)> {
            let contents: Vec<Content> = sizes.iter().map(|size| Content { blob: [0; 32], size: *size }).collect();
            parts(&contents, &range).into_iter().map(|(content, range)| (content.size, range)).collect()
        };
        assert_eq!(of(&[3, 0, 5], 0..8), [(3, 0..3), (5, 0..5)]);
        assert_eq!(of(&[3, 4, 5], 2..8), [(3, 2..3), (4, 0..4), (5, 0..1)]);
        assert_eq!(of(&[3, 4, 5], 3..7), [(4, 0..4)]);
        assert_eq!(of(&[3, 4, 5], 5..6), [(4, 2..3)]);
        assert_eq!(of(&[], 0..0), []);
        assert_eq!(of(&[0], 0..0), []);
    }

    #[test]
    fn ranges_as_rfc_9110_has_them() {
        for (text, size, want) in [
            ("bytes=0-4", 10, WantedRange::Part(0..5)),
            ("bytes=4-", 10, WantedRange::Part(4..10)),
            ("bytes=4-99", 10, WantedRange::Part(4..10)),
            ("bytes=-3", 10, WantedRange::Part(7..10)),
            ("bytes=-30", 10, WantedRange::Part(0..10)),
            ("bytes=10-", 10, WantedRange::Outside),
            ("bytes=-0", 10, WantedRange::Outside),
            ("bytes=0-", 0, WantedRange::Outside),
            ("bytes=5-4", 10, WantedRange::All),
            ("bytes=0-1,3-4", 10, WantedRange::All),
            ("lines=0-1", 10, WantedRange::All),
            ("bytes=a-b", 10, WantedRange::All),
        ] {
            assert_eq!(range(text, size), want, "{text} of {size}");
        }
    }
}
