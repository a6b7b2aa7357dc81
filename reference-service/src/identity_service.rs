//! Signing in by password, which an identity service checks; step 4 moves the call.

use serde_json::{Value, json};

use crate::service_client::{Answer, CallError, ServiceClient};

const SIGN_IN: &str = "/v1/accounts:signInWithPassword";

/// An address and a password, as a client gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The account's address.
    pub email: String,
    /// Its password.
    pub password: String,
}

/// What came of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// The account's token.
    Token(String),
    /// The identity service says no, with a status of its own from 400 on.
    Refused {
        /// Its status.
        status: u16,
        /// Its reason.
        reason: String,
    },
    /// It said something else.
    NotUnderstood,
}

/// Asks the identity service.
///
/// # Errors
/// [`CallError`] if there is no answer.
pub async fn sign_in(
    service: &dyn ServiceClient,
    credentials: &Credentials,
) -> Result<Login, CallError> {
    let asked = json!({
        "email": credentials.email,
        "password": credentials.password,
        "returnSecureToken": true,
    });
    Ok(read(&service.post(SIGN_IN, &asked).await?))
}

fn read(answer: &Answer) -> Login {
    let body = answer.json();
    match (answer.status, body["idToken"].as_str()) {
        (200, Some(token)) if !token.is_empty() => Login::Token(token.to_owned()),
        (status @ 400..=599, _) => Login::Refused {
            status,
            reason: reason(&body),
        },
        _ => Login::NotUnderstood,
    }
}

fn reason(body: &Value) -> String {
    let reason = body["error"]["message"].as_str();
    reason.unwrap_or("The sign-in was refused").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Login {
        read(&Answer {
            status,
            body: body.as_bytes().to_vec(),
        })
    }

    #[test]
    fn a_token_is_a_login_and_a_refusal_keeps_its_status() {
        let token = r#"{"idToken":"t"}"#;
        assert_eq!(answered(200, token), Login::Token("t".to_owned()));
        for (status, body, reason) in [
            (400, r#"{"error":{"message":"INVALID"}}"#, "INVALID"),
            (429, "slow down", "The sign-in was refused"),
            (503, "", "The sign-in was refused"),
            (400, token, "The sign-in was refused"),
        ] {
            let reason = reason.to_owned();
            assert_eq!(answered(status, body), Login::Refused { status, reason });
        }
    }

    #[test]
    fn anything_else_is_no_answer() {
        let token = r#"{"idToken":"t"}"#;
        for (status, body) in [
            (200, ""),
            (200, "{}"),
            (200, "[1]"),
            (200, r#"{"idToken":""}"#),
            (200, r#"{"idToken":7}"#),
            (204, ""),
            (302, token),
            (600, token),
        ] {
            assert_eq!(
                answered(status, body),
                Login::NotUnderstood,
                "{status} {body}"
            );
        }
    }
}
