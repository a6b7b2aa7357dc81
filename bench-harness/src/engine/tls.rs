//! TLS as a client speaks it: whom it trusts, who it says it is, and its failures in words.
//!
//! Sessions belong to a user, as a browser's belong to its owner: a user's first handshake is a
//! full one, and a later connection of the same user resumes its session if the service allows it.
//! A store shared by all users would measure services that nobody has.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use unstall_scenarios::plan::HttpVersion;

use super::failure::Failure;
use super::tls_failure;

/// A user talks to one service over each of its configurations.
const SESSIONS: usize = 1;

/// Protocols by their ALPN names (RFC 9113 §3.2, RFC 7301 §6).
pub(super) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// How TLS is to be spoken.
#[derive(Debug, Default)]
pub(super) struct TlsOptions {
    /// Any certificate will do.
    pub(super) insecure: bool,
    pub(super) handshakes: Handshakes,
    trusted: Option<RootCertStore>,
    identity: Option<Identity>,
}

/// Whether a user's later handshakes may be short ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Handshakes {
    #[default]
    ResumedWithinUser,
    AllFull,
}

#[derive(Debug)]
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    private_key: PrivateKeyDer<'static>,
}

/// What it takes to speak TLS with one service. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    handshakes: Handshakes,
}

/// Why TLS can't be spoken as asked.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that can't be read.
    #[error("{option} {}: it can't be read ({source}); expected {expected}", .path.display())]
    Unreadable {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file without what it should hold.
    #[error("{option} {}: it holds no {wanted}; expected {expected}{hint}", .path.display())]
    Empty {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is missing.
        wanted: &'static str,
        /// What it should hold.
        expected: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// A file whose content is broken.
    #[error(
        "{option} {}, line {line}: the {wanted} that begins there can't be used ({reason}); \
         expected {expected}", .path.display()
    )]
    Broken {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Where it begins, from 1.
        line: usize,
        /// What is broken.
        wanted: &'static str,
        /// Why.
        reason: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// Key and certificate don't fit.
    #[error(
        "--client-key {} does not belong to --client-certificate {} ({reason}): name the key that \
         the certificate was made with", .key.display(), .certificate.display()
    )]
    Identity {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// Why.
        reason: String,
    },
    /// Nobody is trusted.
    #[error(
        "this machine trusts no CA{0}: install its CA certificates (Debian: ca-certificates), or \
         name the service's CA by --ca"
    )]
    NoRoots(String),
    /// No name of a server.
    #[error(
        "{option} `{name}` is neither a host name nor an IP address, as certificates have them"
    )]
    Name {
        /// Where it comes from.
        option: &'static str,
        /// What was given.
        name: String,
    },
    /// What should never be.
    #[error("TLS could not be set up: {0}; this is a fault of unstall")]
    Setup(String),
}

const CERTIFICATES: &str = "PEM, like -----BEGIN CERTIFICATE-----";
const KEY: &str = "PEM, like -----BEGIN PRIVATE KEY-----";
const CA: &str = "--ca";
const CLIENT_CERTIFICATE: &str = "--client-certificate";
const CLIENT_KEY: &str = "--client-key";

impl TlsOptions {
    /// Trusts whom this machine trusts, or anyone, and shows no certificate.
    pub(super) fn new(insecure: bool, handshakes: Handshakes) -> Self {
        Self {
            insecure,
            handshakes,
            ..Self::default()
        }
    }

    /// Trusts the CAs of a PEM file and nobody else.
    pub(super) fn trust_only(&mut self, path: &Path) -> Result<(), TlsError> {
        let pem = PemFile::read(CA, path, CERTIFICATES)?;
        let mut trusted = RootCertStore::empty();
        for (index, certificate) in pem.certificates()?.into_iter().enumerate() {
            trusted
                .add(certificate)
                .map_err(|error| pem.broken("certificate", index, &tls_failure::reason(&error)))?;
        }
        self.trusted = Some(trusted);
        Ok(())
    }

    /// Shows a certificate to services that want one.
    pub(super) fn identify(&mut self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let chain = PemFile::read(CLIENT_CERTIFICATE, certificate, CERTIFICATES)?.certificates()?;
        self.identity = Some(Identity {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            chain,
            private_key: PemFile::read(CLIENT_KEY, key, KEY)?.private_key()?,
        });
        Ok(())
    }

    fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let setup = |error: Error| TlsError::Setup(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(setup)?;
        let builder = if self.insecure {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone)
        } else {
            let trusted = match &self.trusted {
                Some(trusted) => trusted.clone(),
                None => of_this_machine()?,
            };
            builder.with_root_certificates(trusted)
        };
        let Some(identity) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        builder
            .with_client_auth_cert(identity.chain.clone(), identity.private_key.clone_key())
            .map_err(|error| TlsError::Identity {
                certificate: identity.certificate.clone(),
                key: identity.key.clone(),
                reason: error.to_string(),
            })
    }
}

/// The CAs that this machine trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
fn of_this_machine() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut trusted = RootCertStore::empty();
    // Old machines keep some that no library understands any more: whoever needs one is told so
    // by its handshakes.
    let (added, _ignored) = trusted.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first();
        return Err(TlsError::NoRoots(
            why.map_or_else(String::new, |why| format!(" ({why})")),
        ));
    }
    Ok(trusted)
}

impl Tls {
    /// For any service; see [`Tls::with_name`].
    pub(super) fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let mut config = options.config()?;
        // Until it is known whose sessions they are.
        config.resumption = Resumption::disabled();
        let tls = Self {
            config: Arc::new(config),
            name: server_name("host", "localhost")?,
            handshakes: options.handshakes,
        };
        Ok(tls.speaking(HttpVersion::Auto))
    }

    /// For the service of this name, which is asked for and must be in its certificate.
    pub(super) fn with_name(&self, name: &str) -> Result<Self, TlsError> {
        Ok(Self {
            name: server_name("its host", name)?,
            ..self.clone()
        })
    }

    /// Offers what is spoken (ALPN, RFC 7301).
    pub(super) fn speaking(mut self, http: HttpVersion) -> Self {
        let offered: &[&[u8]] = match http {
            HttpVersion::Auto => &[H2, HTTP_1_1],
            HttpVersion::Http1 => &[HTTP_1_1],
            HttpVersion::Http2 => &[H2],
        };
        Arc::make_mut(&mut self.config).alpn_protocols =
            offered.iter().map(|name| name.to_vec()).collect();
        self
    }

    /// The same with sessions that nobody else resumes.
    pub(super) fn of_a_user(&self) -> Self {
        let mut own = self.clone();
        Arc::make_mut(&mut own.config).resumption = match self.handshakes {
            Handshakes::ResumedWithinUser => Resumption::in_memory_sessions(SESSIONS),
            Handshakes::AllFull => Resumption::disabled(),
        };
        own
    }

    /// Shakes hands over a connection that stands.
    pub(super) async fn connect(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        TlsConnector::from(Arc::clone(&self.config))
            .connect(self.name.clone(), stream)
            .await
            .map_err(|error| tls_failure::of_handshake(&error))
    }
}

pub(super) fn server_name(
    option: &'static str,
    name: &str,
) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name {
        option,
        name: name.to_owned(),
    })
}

/// A PEM file that an option names.
struct PemFile<'a> {
    option: &'static str,
    path: &'a Path,
    expected: &'static str,
    bytes: Vec<u8>,
}

impl<'a> PemFile<'a> {
    fn read(
        option: &'static str,
        path: &'a Path,
        expected: &'static str,
    ) -> Result<Self, TlsError> {
        let bytes = fs::read(path).map_err(|source| TlsError::Unreadable {
            option,
            path: path.to_owned(),
            expected,
            source,
        })?;
        Ok(Self {
            option,
            path,
            expected,
            bytes,
        })
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let mut all = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&self.bytes) {
            let broken = |error| self.broken("certificate", all.len(), &format!("{error}"));
            all.push(certificate.map_err(broken)?);
        }
        if all.is_empty() {
            return Err(self.empty("certificate"));
        }
        Ok(all)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let mut keys = PrivateKeyDer::pem_slice_iter(&self.bytes);
        match keys.next() {
            Some(Ok(key)) => Ok(key),
            Some(Err(error)) => Err(self.broken("private key", 0, &format!("{error}"))),
            None => Err(self.empty("private key")),
        }
    }

    fn empty(&self, wanted: &'static str) -> TlsError {
        let holds = |what: &[u8]| self.bytes.windows(what.len()).any(|bytes| bytes == what);
        let hint = if holds(b"BEGIN ENCRYPTED PRIVATE KEY") {
            "; it is encrypted, and nobody is there to ask for its password: decrypt it with \
             `openssl pkey -in FILE -out DECRYPTED`"
        } else if holds(b"PRIVATE KEY-----") {
            "; it holds a private key"
        } else if holds(b"BEGIN CERTIFICATE") {
            "; it holds a certificate"
        } else if self.bytes.first() == Some(&0x30) {
            // The first byte of every DER sequence.
            "; it looks like DER: convert it with `openssl x509 -inform der -in FILE -out PEM`, or \
             `openssl pkey` for a key"
        } else {
            ""
        };
        TlsError::Empty {
            option: self.option,
            path: self.path.to_owned(),
            wanted,
            expected: self.expected,
            hint,
        }
    }

    /// The `index`-th thing of its kind is broken.
    fn broken(&self, wanted: &'static str, index: usize, reason: &str) -> TlsError {
        let text = String::from_utf8_lossy(&self.bytes);
        let label = wanted.to_uppercase();
        let begins = |line: &str| line.contains("-----BEGIN") && line.contains(&label);
        let mut lines = text.lines().enumerate().filter(|(_, line)| begins(line));
        TlsError::Broken {
            option: self.option,
            path: self.path.to_owned(),
            line: lines.nth(index).map_or(1, |(line, _)| line + 1),
            wanted,
            reason: reason.to_owned(),
            expected: self.expected,
        }
    }
}

/// Trusts anyone, as `--insecure` asks; who answers must still hold its certificate's key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
