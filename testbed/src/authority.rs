//! A CA of the tests, and what it and others sign: certificates that are right, and wrong in one
//! way each.

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
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key_der: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a CA");
        Self { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The CA's own certificate as a server's: what `openssl req -x509` makes.
    pub(crate) fn itself(&self) -> Identity {
        Identity::of(self.issuer.der(), self.issuer.pem(), self.issuer.key())
    }

    /// A server's certificate for these names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Identity {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, |_| {})
    }

    /// One whose time was over long ago.
    pub(crate) fn expired(&self, names: &[&str]) -> Identity {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    /// A client's certificate.
    pub(crate) fn client(&self) -> Identity {
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, |_| {})
    }

    fn sign(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages.push(usage);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity::of(certificate.der(), certificate.pem(), &key)
    }
}

impl Identity {
    fn of(der: &CertificateDer<'static>, pem: String, key: &KeyPair) -> Self {
        Self {
            certificate_pem: pem,
            key_pem: key.serialize_pem(),
            chain: vec![der.clone()],
            key_der: key.serialize_der(),
        }
    }

    /// As a TLS server wants it.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key_der.clone()));
        let provider = ring::default_provider();
        let certified = CertifiedKey::from_der(self.chain.clone(), key, &provider);
        Arc::new(certified.expect("they belong together"))
    }

    /// Both files, as the command line wants them.
    pub(crate) fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (folder.join("client.pem"), folder.join("client.key"));
        std::fs::write(&certificate, &self.certificate_pem).expect("writable");
        std::fs::write(&key, &self.key_pem).expect("writable");
        (certificate, key)
    }
}
