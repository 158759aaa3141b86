//! TLS to a server: whom to trust, and the handshake (feature `tls`).
//!
//! Without the feature a [`Tls`] cannot be made, so the rest of the client needs no switch: a `rediss://`
//! URL is refused with a sentence before anything is dialled.

use std::path::Path;

use super::transport::ByteStream;
use crate::error::{Error, Result};

#[cfg(feature = "tls")]
mod with_rustls {
    use std::{fmt::Display, sync::Arc};

    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use tokio_rustls::TlsConnector;

    use super::{ByteStream, Error, Path, Result};

    /// The settings of TLS connections; a cheap clone.
    #[derive(Clone)]
    pub(crate) struct Tls(Arc<rustls::ClientConfig>);

    impl Tls {
        /// Trusts the authority in this PEM file, or those that the machine trusts.
        pub(crate) fn trusting(authority: Option<&Path>) -> Result<Self> {
            let mut roots = rustls::RootCertStore::empty();
            match authority {
                None => {
                    let found = rustls_native_certs::load_native_certs();
                    roots.add_parsable_certificates(found.certs);
                }
                Some(path) => {
                    let unusable = |error: &dyn Display| {
                        let path = path.display();
                        Error::Invalid(format!("the CA file {path} cannot be used: {error}"))
                    };
                    let authorities =
                        CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
                    for authority in authorities {
                        let authority = authority.map_err(|error| unusable(&error))?;
                        roots.add(authority).map_err(|error| unusable(&error))?;
                    }
                }
            }
            if roots.is_empty() {
                return Err(Error::Invalid(
                    "there is no certificate authority to trust; name one with ca_file".into(),
                ));
            }
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| Error::Invalid(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Tls(Arc::new(config)))
        }

        /// Shakes hands over a connection to the server of this name.
        pub(crate) async fn wrap(
            &self,
            host: &str,
            stream: Box<dyn ByteStream>,
        ) -> Result<Box<dyn ByteStream>> {
            let name = ServerName::try_from(host.to_owned()).map_err(|error| {
                Error::Invalid(format!("{host} cannot be a server's name: {error}"))
            })?;
            let connector = TlsConnector::from(Arc::clone(&self.0));
            Ok(Box::new(connector.connect(name, stream).await?))
        }
    }
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::Tls;

/// Without the feature `tls` there is none.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub(crate) fn trusting(_: Option<&Path>) -> Result<Self> {
        Err(Error::Invalid("rediss:// needs the feature `tls` of the crate seawall".into()))
    }

    #[expect(clippy::unused_async, reason = "with the feature `tls` it shakes hands")]
    pub(crate) async fn wrap(
        &self,
        _: &str,
        _: Box<dyn ByteStream>,
    ) -> Result<Box<dyn ByteStream>> {
        match *self {}
    }
}
