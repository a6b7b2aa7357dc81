//! The service's own certificate: what its monitor caught since it started, read over HTTP.

use std::time::Duration;

use unstall_loop_monitor::certificate::{self, CERTIFICATE_PATH, Certificate};
use unstall_loop_monitor::wire;

use crate::control::{Control, ControlError};
use crate::engine::Target;
use crate::monitor_client::{self, MonitorError, Sight};

/// Names are looked up in debug information when a certificate is asked for, which takes a large
/// program a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Reads certificates of one service.
#[derive(Debug)]
pub struct CertificateClient {
    control: Control,
    url: String,
    token: Option<String>,
}

/// Why a certificate that is there can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It speaks another version.
    #[error(
        "{url} speaks version {found} of the certificate, this version reads {expected}: \
         use a loop monitor and an unstall of the same release"
    )]
    Version {
        /// Where.
        url: String,
        /// Its major version.
        found: u32,
        /// The one understood here.
        expected: u32,
    },
    /// It says it is a certificate, and is not.
    #[error("{url} is no usable certificate: {reason}")]
    Malformed {
        /// Where.
        url: String,
        /// Line, column and what is wrong.
        reason: String,
    },
    /// The service did not answer in time, or not to the end.
    #[error("the certificate could not be asked for: {0}")]
    NoAnswer(#[source] ControlError),
    /// No client, or a token that can't be sent.
    #[error(transparent)]
    Client(#[from] MonitorError),
}

impl CertificateClient {
    /// A reader of the service at `target`, with the token that the environment holds.
    ///
    /// # Errors
    /// If the token can't be sent.
    pub fn new(target: &Target) -> Result<Self, CertificateError> {
        Ok(Self {
            control: Control::new(target, ANSWER_WITHIN),
            url: target.url(CERTIFICATE_PATH),
            token: monitor_client::token()?,
        })
    }

    /// Where the certificate is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Reads the certificate, if the service has one.
    ///
    /// # Errors
    /// If there is one that can't be understood, or no answer at all: a service without one
    /// says so.
    pub fn read(&self) -> Result<Sight<Certificate>, CertificateError> {
        let reply = self
            .control
            .get_with_token(CERTIFICATE_PATH, self.token.as_deref())
            .map_err(CertificateError::NoAnswer)?;
        match reply.status {
            200 => Ok(parse(&self.url, &reply.body)?.map_or(Sight::Nothing, Sight::Seen)),
            403 => Ok(monitor_client::refusal(&reply.body).map_or(Sight::Nothing, Sight::Refused)),
            _ => Ok(Sight::Nothing),
        }
    }
}

fn parse(url: &str, body: &[u8]) -> Result<Option<Certificate>, CertificateError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: wire::Schema,
    }
    // Anything without our schema is another program's answer at this path.
    let Ok(Head { schema }) = serde_json::from_slice(body) else {
        return Ok(None);
    };
    if schema.name != certificate::SCHEMA_NAME {
        return Ok(None);
    }
    if schema.major != certificate::SCHEMA_MAJOR {
        return Err(CertificateError::Version {
            url: url.to_owned(),
            found: schema.major,
            expected: certificate::SCHEMA_MAJOR,
        });
    }
    let certificate =
        serde_json::from_slice(body).map_err(|error| CertificateError::Malformed {
            url: url.to_owned(),
            reason: monitor_client::readable(&error.to_string()),
        })?;
    Ok(Some(certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_answers_are_no_certificate() {
        assert!(matches!(parse("u", b"<html>"), Ok(None)));
        assert!(matches!(parse("u", b"{}"), Ok(None)));
        let snapshot = br#"{"schema":{"name":"unstall.snapshot","major":1,"minor":0}}"#;
        assert!(matches!(parse("u", snapshot), Ok(None)));
    }

    #[test]
    fn a_newer_major_and_a_broken_one_are_told_apart() {
        let newer = br#"{"schema":{"name":"unstall.certificate","major":2,"minor":0}}"#;
        let error = parse("http://x/", newer).expect_err("not understood");
        assert_eq!(
            error.to_string(),
            "http://x/ speaks version 2 of the certificate, this version reads 1: use a loop \
             monitor and an unstall of the same release"
        );
        let broken = br#"{"schema":{"name":"unstall.certificate","major":1,"minor":7}}"#;
        let error = parse("http://x/", broken).expect_err("not whole");
        assert!(
            error
                .to_string()
                .contains("no usable certificate: missing field"),
            "{error}"
        );
    }

    #[test]
    fn a_newer_minor_is_read() {
        let text = r#"{"schema":{"name":"unstall.certificate","major":1,"minor":9},
            "start_id":"a","method":{"kind":"syscall-user-dispatch"},"novelty":true,
            "routes":{"GET /":{"requests":1,"polls":2,"calls":3,"novelty":4}},"not_covered":[]}"#;
        let certificate = parse("u", text.as_bytes())
            .expect("understood")
            .expect("ours");
        assert_eq!(certificate.routes["GET /"].polls, 2);
    }
}
