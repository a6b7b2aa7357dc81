//! A CA for tests and the self-test, and what it signs: certificates that are right, and wrong in
//! one way each. It lives as long as its owner, and nobody else trusts it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

/// One CA.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Identity {
    certificate_pem: String,
    key_pem: String,
    certificate_der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Authority {
    /// A CA of this name, with a new key.
    ///
    /// # Errors
    /// When this machine has no randomness to make a key of.
    pub fn new(name: &str) -> io::Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        Ok(Self { issuer })
    }

    /// Its certificate, as a file has it.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The same as TLS has it.
    #[must_use]
    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The CA's own certificate as a server's: what `openssl req -x509` makes.
    #[must_use]
    pub fn itself(&self) -> Identity {
        Identity::of(self.issuer.der(), self.issuer.pem(), self.issuer.key())
    }

    /// A server's certificate for these names and addresses.
    ///
    /// # Errors
    /// When one of them is no name, or there is no randomness.
    pub fn server(&self, names: &[&str]) -> io::Result<Identity> {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, |_| {})
    }

    /// One whose time was over long ago.
    ///
    /// # Errors
    /// As [`Authority::server`].
    pub fn expired(&self, names: &[&str]) -> io::Result<Identity> {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    /// A client's certificate.
    ///
    /// # Errors
    /// As [`Authority::server`].
    pub fn client(&self) -> io::Result<Identity> {
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, |_| {})
    }

    fn sign(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> io::Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.extended_key_usages.push(usage);
        change(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(io::Error::other)?;
        Ok(Identity::of(certificate.der(), certificate.pem(), &key))
    }
}

impl Identity {
    fn of(der: &CertificateDer<'static>, pem: String, key: &KeyPair) -> Self {
        Self {
            certificate_pem: pem,
            key_pem: key.serialize_pem(),
            certificate_der: der.clone(),
            key_der: key.serialize_der(),
        }
    }

    /// Its private key, as a file has it.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// As a TLS server wants it.
    ///
    /// # Errors
    /// When TLS doesn't take them.
    pub fn certified(&self) -> io::Result<Arc<CertifiedKey>> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key_der.clone()));
        let chain = vec![self.certificate_der.clone()];
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        certified.map(Arc::new).map_err(io::Error::other)
    }

    /// Certificate and key in the files `client.pem` and `client.key`, as a command line wants
    /// them.
    ///
    /// # Errors
    /// When the folder can't be written.
    pub fn write(&self, folder: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (folder.join("client.pem"), folder.join("client.key"));
        std::fs::write(&certificate, &self.certificate_pem)?;
        std::fs::write(&key, &self.key_pem)?;
        Ok((certificate, key))
    }
}
