//! The certificates of a server, which can be replaced while it runs.

use crate::error::{Error, Result};
use crate::options::TlsOptions;
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::sync::Arc;

/// The TLS configuration of connections that begin now.
pub(crate) struct TlsSettings(ArcSwap<ServerConfig>);

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

impl TlsSettings {
    pub(crate) fn new(tls: &TlsOptions) -> Result<TlsSettings> {
        Ok(TlsSettings(ArcSwap::new(tls_config(tls)?)))
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.load_full()
    }

    /// Replaces the configuration. If the new one is not valid, the earlier one stays.
    pub(crate) fn replace(&self, tls: &TlsOptions) -> Result<()> {
        self.0.store(tls_config(tls)?);
        Ok(())
    }
}

fn tls_config(tls: &TlsOptions) -> Result<Arc<ServerConfig>> {
    let bad = |why: String| Error::Tls { why };
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&tls.certificate).collect();
    let certificates =
        certificates.map_err(|error| bad(format!("the certificate is not valid PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(bad("the certificate file contains no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&tls.key)
        .map_err(|error| bad(format!("the private key is not valid PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(error.to_string()))?;
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(pem)?, provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| bad(error.to_string()))?)
        }
    };
    let config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| bad(error.to_string()))?;
    Ok(Arc::new(config))
}

/// Parses the certificate authorities that verify client certificates.
fn authorities(pem: &[u8]) -> Result<Arc<RootCertStore>> {
    let bad = |why: String| Error::Tls { why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| {
            bad(format!(
                "the certificate authority for clients is not valid PEM: {error}"
            ))
        })?;
        roots.add(certificate).map_err(|error| {
            bad(format!(
                "the certificate authority for clients is not a valid certificate: {error}"
            ))
        })?;
    }
    if roots.is_empty() {
        return Err(bad(
            "the file of the certificate authority for clients contains no certificate".to_owned(),
        ));
    }
    Ok(Arc::new(roots))
}
