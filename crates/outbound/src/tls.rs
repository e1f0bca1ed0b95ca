//! TLS for what goes out: rustls with ring, the platform's roots (or those of `SSL_CERT_FILE`), and the operator's own.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why certificates cannot be trusted as told.
#[derive(Debug, thiserror::Error)]
pub enum BadRoots {
    /// A file that was named is not readable PEM with certificates.
    #[error("{file}: {what}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The library refuses.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Roots of the platform that cannot be read are left out: a connection then fails with the certificate's own error. Files
/// that the operator named must be right.
pub(crate) fn config(extra: &[PathBuf]) -> Result<Arc<ClientConfig>, BadRoots> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for file in extra {
        for certificate in read(file)? {
            roots.add(certificate).map_err(|error| bad(file, error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, BadRoots> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?.collect();
    match all.map_err(|error| bad(file, error))? {
        none if none.is_empty() => Err(bad(file, "no certificate in it")),
        all => Ok(all),
    }
}

fn bad(file: &Path, what: impl ToString) -> BadRoots {
    BadRoots::File { file: file.display().to_string(), what: what.to_string() }
}
