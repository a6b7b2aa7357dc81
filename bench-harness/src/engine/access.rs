//! How a target is reached, beyond its URL: whom to trust, who we are, and through which proxy.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::proxy::{Proxy, ProxyError};
use super::tls::{self, Handshakes, Tls, TlsError, TlsOptions};

/// How targets are reached, as the command line has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// PEM file of the CAs to trust, instead of those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// PEM file of our certificate and its chain, for services that want one.
    pub client_certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub client_key: Option<PathBuf>,
    /// The service's name, instead of the target's host: what it is asked for, and what its
    /// certificate must hold.
    pub server_name: Option<String>,
    /// Any certificate will do.
    pub insecure: bool,
    /// Every handshake is a full one: no session is resumed.
    pub full_handshakes: bool,
    /// `http://host:port` of a proxy, with `user:password@` if it wants that.
    pub proxy: Option<String>,
}

/// The same, with its files read and checked. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Access {
    shared: Arc<Resolved>,
    name: Option<String>,
}

#[derive(Debug, Default)]
struct Resolved {
    proxy: Option<Proxy>,
    tls: TlsOptions,
    /// Made when the first target wants it: reading the machine's CAs takes a few milliseconds.
    base: OnceLock<Tls>,
}

/// Why targets can't be reached as asked.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// TLS can't be spoken so.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No such proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// Half of an identity.
    #[error("{given} without {missing}: a certificate and its private key belong together")]
    HalfIdentity {
        /// The option that is there.
        given: &'static str,
        /// The one that isn't.
        missing: &'static str,
    },
    /// A proxy forwards to hosts.
    #[error("a Unix socket is not reached through a proxy: leave --proxy out")]
    ProxyToSocket,
}

impl Access {
    /// Reads and checks what the options name.
    ///
    /// # Errors
    /// [`AccessError`] names the option, the file, what was expected and what to do.
    pub fn resolve(options: &TargetOptions) -> Result<Self, AccessError> {
        let identity = match (&options.client_certificate, &options.client_key) {
            (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
            (None, None) => None,
            (Some(_), None) => {
                return Err(AccessError::HalfIdentity {
                    given: "--client-certificate",
                    missing: "--client-key",
                });
            }
            (None, Some(_)) => {
                return Err(AccessError::HalfIdentity {
                    given: "--client-key",
                    missing: "--client-certificate",
                });
            }
        };
        let handshakes = if options.full_handshakes {
            Handshakes::AllFull
        } else {
            Handshakes::ResumedWithinUser
        };
        let mut tls = TlsOptions::new(options.insecure, handshakes);
        if let Some(path) = &options.ca {
            tls.trust_only(path)?;
        }
        if let Some((certificate, key)) = identity {
            tls.identify(certificate, key)?;
        }
        if let Some(name) = &options.server_name {
            tls::server_name("--server-name", name)?;
        }
        Ok(Self {
            shared: Arc::new(Resolved {
                proxy: options.proxy.as_deref().map(Proxy::parse).transpose()?,
                tls,
                base: OnceLock::new(),
            }),
            name: options.server_name.clone(),
        })
    }

    /// The same for services whose names are their own: `--server-name` is the target's.
    #[must_use]
    pub fn of_other_hosts(&self) -> Self {
        Self {
            name: None,
            ..self.clone()
        }
    }

    /// True if certificates are not verified.
    pub fn is_insecure(&self) -> bool {
        self.shared.tls.insecure
    }

    /// The proxy, without its password, as records and messages name it.
    pub fn proxy_shown(&self) -> Option<String> {
        self.shared.proxy.as_ref().map(ToString::to_string)
    }

    /// Whether a proxy stands before the target.
    pub fn is_proxied(&self) -> bool {
        self.shared.proxy.is_some()
    }

    /// True if every TLS handshake is a full one.
    pub fn has_full_handshakes(&self) -> bool {
        self.shared.tls.handshakes == Handshakes::AllFull
    }

    /// The name that replaces the target's host.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn proxy(&self) -> Option<&Proxy> {
        self.shared.proxy.as_ref()
    }

    /// What it takes to speak TLS with `host`.
    pub(super) fn tls(&self, host: &str) -> Result<Tls, AccessError> {
        let base = match self.shared.base.get() {
            Some(base) => base,
            None => {
                let made = Tls::new(&self.shared.tls)?;
                self.shared.base.get_or_init(|| made)
            }
        };
        Ok(base.with_name(self.name().unwrap_or(host))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_identity_is_none() {
        for (certificate, key, missing) in [
            (Some("c.pem"), None, "without --client-key"),
            (None, Some("k.pem"), "without --client-certificate"),
        ] {
            let error = Access::resolve(&TargetOptions {
                client_certificate: certificate.map(PathBuf::from),
                client_key: key.map(PathBuf::from),
                ..TargetOptions::default()
            })
            .expect_err("half");
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[test]
    fn nothing_tells_the_proxys_password() {
        let access = Access::resolve(&TargetOptions {
            proxy: Some("http://me:s3cret@proxy.test:3128".to_owned()),
            ..TargetOptions::default()
        })
        .expect("a proxy");
        let shown = access.proxy_shown().expect("a proxy");
        assert_eq!(shown, "http://proxy.test:3128");
        let all = format!("{access:?}");
        assert!(!all.contains("s3cret") && !all.contains("bWU6"), "{all}");
    }
}
