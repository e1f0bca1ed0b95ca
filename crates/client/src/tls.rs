//! TLS for outgoing connections: rustls with ring, trusting the platform's roots and `SSL_CERT_FILE`.

use crate::endpoint::Endpoint;
use crate::error::ClientError;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// One configuration for HTTP and WebSocket. Roots are read only where they are needed. Those that cannot be read
/// are left out: a connection then fails with the certificate's own error, which says more than we could here.
pub(crate) fn config_for(endpoint: &Endpoint) -> Result<Arc<ClientConfig>, ClientError> {
    let mut roots = RootCertStore::empty();
    if endpoint.is_tls() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| ClientError::Protocol(format!("TLS is not available: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
