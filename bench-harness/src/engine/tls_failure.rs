//! Failures of TLS in words: what was wrong with whom, and what to do about it.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};
use unstall_results::record::ErrorKind;

use super::failure::Failure;

/// A handshake that failed.
pub(super) fn of_handshake(error: &io::Error) -> Failure {
    of_connection(error).unwrap_or_else(|| {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the service hung up; is it TLS that it speaks there?".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::service(
            ErrorKind::Tls,
            format!("the TLS handshake broke off: {reason}"),
        )
    })
}

/// What TLS has to say about a connection that broke, if it was TLS that broke it. A service that
/// does not like our certificate says so only after the handshake (RFC 8446 §4.4.2.4).
pub(super) fn of_connection(error: &io::Error) -> Option<Failure> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(Failure::service(
        ErrorKind::Tls,
        format!("TLS failed: {}", reason(error)),
    ))
}

/// Why, and what to do about it.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => reason_of_certificate(error),
        Error::AlertReceived(alert) => reason_of_alert(*alert),
        Error::InvalidMessage(_) => {
            "what answers there is not TLS: write http:// if the service speaks plain HTTP"
                .to_owned()
        }
        error => error.to_string(),
    }
}

fn reason_of_certificate(error: &CertificateError) -> String {
    const SECONDS_A_DAY: u64 = 86_400;
    match error {
        CertificateError::UnknownIssuer => {
            "the service's certificate is signed by no CA that is trusted: name its CA by --ca"
                .to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / SECONDS_A_DAY;
            format!("the service's certificate has expired, {days} days ago")
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let days = not_before.as_secs().saturating_sub(time.as_secs()) / SECONDS_A_DAY;
            format!(
                "the service's certificate is not valid before {days} days from now: is this \
                 machine's clock right?"
            )
        }
        CertificateError::NotValidForNameContext { .. } | CertificateError::NotValidForName => {
            format!("{error}: mend the target's host, or name the service by --server-name")
        }
        // The verifier has no name of its own for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the service shows the certificate of a CA (CA:TRUE) as its own: sign one for the \
             service, or make it with `openssl req -x509 -addext basicConstraints=CA:FALSE`"
                .to_owned()
        }
        error => format!("the service's certificate can't be used: {error}"),
    }
}

fn reason_of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "the service wants a client certificate: give --client-certificate and --client-key"
                .to_owned()
        }
        AlertDescription::HandshakeFailure => {
            "the service refuses the handshake: it agrees with none of our ciphers, or wants a \
             client certificate (--client-certificate)"
                .to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            format!("the service does not accept our client certificate ({alert:?})")
        }
        AlertDescription::UnrecognisedName => {
            "the service knows no such name: name one that it knows by --server-name".to_owned()
        }
        AlertDescription::NoApplicationProtocol => {
            "the service speaks none of the HTTP versions that were offered: see `http` in the \
             scenario's [client]"
                .to_owned()
        }
        alert => format!("the service ended it with the alert {alert:?}"),
    }
}
