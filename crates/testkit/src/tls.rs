//! TLS for a private server: an authority created for this server, and a certificate from it.
//!
//! The plain port stays open as well, so that the test can inspect the server. Clients need no
//! certificate.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::port::free_port;

/// What a client needs for TLS; the files are in the server's temporary folder.
#[derive(Debug, Clone)]
pub struct Tls {
    port: u16,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Tls {
    /// Creates an authority and a certificate for `localhost` and 127.0.0.1 in `folder`.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let tls = Self {
            port: free_port()?,
            ca: folder.join("ca.pem"),
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
        };
        tls.write_files().map_err(io::Error::other)?;
        Ok(tls)
    }

    fn write_files(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.distinguished_name.push(DnType::CommonName, "Seawall test authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "Seawall test server");
        let server_key = KeyPair::generate()?;
        let certificate = server.signed_by(&server_key, &issuer)?;

        fs::write(&self.ca, authority_certificate.pem())?;
        fs::write(&self.certificate, certificate.pem())?;
        fs::write(&self.key, server_key.serialize_pem())?;
        Ok(())
    }

    pub(crate) fn options(&self) -> Vec<OsString> {
        let port = self.port.to_string();
        let pairs: [(&str, &std::ffi::OsStr); 5] = [
            ("--tls-port", port.as_ref()),
            ("--tls-cert-file", self.certificate.as_ref()),
            ("--tls-key-file", self.key.as_ref()),
            ("--tls-ca-cert-file", self.ca.as_ref()),
            ("--tls-auth-clients", "no".as_ref()),
        ];
        pairs.iter().flat_map(|(name, value)| [name.into(), value.into()]).collect()
    }

    /// Returns the TLS port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `rediss://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    /// Returns the certificate of the authority, in PEM, which a client must trust.
    #[must_use]
    pub fn ca_path(&self) -> &Path {
        &self.ca
    }
}
