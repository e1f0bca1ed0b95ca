//! HTTP as any client speaks it; over TLS when the URL says so.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use serde_json::Value;
use std::sync::Arc;

/// A client of one node.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The `data` of the wrapper; a refusal fails.
    #[track_caller]
    pub fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["data"].take()
    }

    /// The error code of a refusal.
    #[track_caller]
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// A TLS configuration that trusts this certificate alone, or nothing.
pub fn trusting(certificate: Option<&rustls::pki_types::CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    if let Some(certificate) = certificate {
        roots.add(certificate.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

impl Http {
    /// Plain HTTP.
    pub fn new(url: &str) -> Http {
        Http::with_tls(url, &trusting(None))
    }

    /// HTTPS with this trust.
    pub fn with_tls(url: &str, config: &Arc<ClientConfig>) -> Http {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config.as_ref().clone())
            .https_or_http()
            .enable_http1()
            .build();
        Http { client: Client::builder(TokioExecutor::new()).build(connector), url: url.to_owned() }
    }

    /// Sends a request; the body of the answer is still to be read.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Response<Incoming>, String> {
        self.open_bytes(method, path, headers, Bytes::copy_from_slice(body.as_bytes())).await
    }

    /// The same with a body that may be no text.
    pub async fn open_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        self.client.request(request).await.map_err(|e| format!("{method} {path}: {e:?}"))
    }

    /// Sends a request and reads the whole answer.
    pub async fn call(&self, method: &str, path: &str, bearer: &str, body: &str) -> Result<Answer, String> {
        let bearer = format!("Bearer {bearer}");
        let headers = if bearer == "Bearer " { vec![] } else { vec![("authorization", bearer.as_str())] };
        let response = self.open(method, path, &headers, body).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|e| format!("{path}: {e}"))?.to_bytes();
        Ok(Answer { status, body: String::from_utf8(body.to_vec()).map_err(|e| e.to_string())? })
    }

    /// A GET; transport trouble fails.
    pub async fn get(&self, path: &str, bearer: &str) -> Answer {
        self.call("GET", path, bearer, "").await.unwrap()
    }

    /// A POST; transport trouble fails.
    pub async fn post(&self, path: &str, bearer: &str, body: &Value) -> Answer {
        self.call("POST", path, bearer, &body.to_string()).await.unwrap()
    }
}
