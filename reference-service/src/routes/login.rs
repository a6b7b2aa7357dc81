//! `POST /login`: a token for an address and its password, from the identity service.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;
use super::json_text::JsonText;
use crate::identity_service::{self, Credentials, Login};
use crate::refusal::Refusal;
use crate::validation::{Body, FieldError};

/// Signs in by password. What the identity service refuses is refused with its status.
pub(super) async fn login(State(app): State<App>, body: JsonText) -> Result<Json<Value>, Refusal> {
    let credentials = parse(body.object()?)?;
    let Some(service) = &app.stores.services.identity else {
        let reason = "There is no identity service; start with --identity-url";
        return Err(Refusal::LoginFailed(reason));
    };
    match identity_service::sign_in(&**service, &credentials).await {
        Ok(Login::Token(token)) => Ok(Json(json!({ "token": token }))),
        Ok(Login::Refused { status, reason }) => Err(Refusal::LoginRefused { status, reason }),
        Ok(Login::NotUnderstood) => {
            tracing::warn!("the identity service's answer is neither a token nor a refusal");
            Err(Refusal::LoginFailed(
                "The identity service didn't answer as it should",
            ))
        }
        Err(error) => {
            tracing::warn!(%error, "no answer of the identity service");
            Err(Refusal::LoginFailed(
                "The identity service can't be reached; try again",
            ))
        }
    }
}

fn parse(mut body: Body) -> Result<Credentials, Vec<FieldError>> {
    let email = body.text("email");
    let password = body.text("password");
    body.finish()?;
    Ok(Credentials { email, password })
}
