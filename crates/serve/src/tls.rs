//! TLS for the listener: a certificate chain and a key in PEM, HTTP/2 and HTTP/1.1 offered.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Accepts TLS connections.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not readable PEM.
    #[error("{file}: {what}")]
    Pem {
        /// Which file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// Certificate and key do not work together.
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

impl Acceptor {
    /// Reads certificate chain and key.
    pub fn from_pem(cert: &Path, key: &Path) -> Result<Acceptor, TlsError> {
        let bad = |file: &Path, what: String| TlsError::Pem { file: file.display().to_string(), what };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .map_err(|e| bad(cert, e.to_string()))?
            .collect::<Result<_, _>>()
            .map_err(|e| bad(cert, e.to_string()))?;
        if chain.is_empty() {
            return Err(bad(cert, "no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, e.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
