//! `POST /signup`, `POST /sso/login` and `GET /providers/me`: accounts and the ways to sign in.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::App;
use super::json_text::JsonText;
use crate::auth::sign_in::{SignIn, SignedIn};
use crate::auth::sign_up::{GitHub, SignUp, SignedUp};
use crate::auth::{Client, Provider, User, id_token};
use crate::email;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::stores::{Backend, StoreError, Stores};
use crate::to_its_end::ToItsEnd;
use crate::validation::{self, Body};

/// Characters of an id that somebody else made.
const UID_CHARS_MAX: usize = 255;

/// Signs up. Its answers come without a Content-Type, as the original's do.
pub(super) async fn sign_up(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: JsonText,
) -> Response {
    match answer_sign_up(&app, client(peer, &headers), body).await {
        Ok(answer) => without_content_type(answer.into_response()),
        Err(Refusal::Store(error)) => Refusal::Store(error).into_response(),
        Err(refusal) => without_content_type(refusal.into_response()),
    }
}

async fn answer_sign_up(
    app: &App,
    client: Client,
    body: JsonText,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let request = parse_sign_up(body.bytes()).map_err(Refusal::BadRequest)?;
    app.open_session().await;
    // Several commits: a client that leaves leaves none of them out.
    let auth = Arc::clone(&app.stores.auth);
    let (outcome, request) = ToItsEnd::new(async move {
        let outcome = auth.sign_up(&request, &client).await?;
        Ok((outcome, request))
    })
    .await?;
    let conflict = |reason: &str| Err(Refusal::Conflict(reason.to_owned()));
    let (status, uid, exists, needs_github_linking) = match outcome {
        SignedUp::Exists {
            uid,
            needs_github_linking,
        } => (StatusCode::OK, uid, true, needs_github_linking),
        SignedUp::Created { uid } => {
            tell_of(&app.stores, &request.email).await;
            (StatusCode::CREATED, uid, false, true)
        }
        SignedUp::NothingToLinkTo => {
            return Err(Refusal::NotFound(
                "User not found; sign in again".to_owned(),
            ));
        }
        SignedUp::UnknownGitHub => {
            return Err(Refusal::Forbidden(
                "Signing up with GitHub is not possible; sign up with a work email address"
                    .to_owned(),
            ));
        }
        SignedUp::GitHubOfAnother => {
            return conflict("This GitHub account is linked to another account");
        }
        SignedUp::EmailOfAnother => {
            return conflict("This email address belongs to another account");
        }
    };
    let answer = json!({
        "uid": uid,
        "exists": exists,
        "needs_github_linking": needs_github_linking,
    });
    Ok((status, Json(answer)))
}

/// Signs in through a sign-in service.
pub(super) async fn sso_login(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: JsonText,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let request = parse_sso_login(body.object()?, client(peer, &headers))?;
    app.open_session().await;
    // As above.
    let auth = Arc::clone(&app.stores.auth);
    match ToItsEnd::new(async move { auth.sign_in(&request).await }).await? {
        SignedIn::Success {
            user,
            needs_github_linking,
        } => {
            let mut answer = sso_answer("success", &user, "Signed in");
            if needs_github_linking {
                answer["message"] = json!("Signed in; a GitHub account must be linked next");
                answer["needs_github_linking"] = json!(true);
            }
            Ok((StatusCode::OK, Json(answer)))
        }
        SignedIn::NeedsLinking {
            user,
            linking_token,
            existing_providers,
        } => {
            let message = format!(
                "The account is signed in to with {}; link this provider?",
                existing_providers.join(", ")
            );
            let mut answer = sso_answer("needs_linking", &user, &message);
            answer["linking_token"] = json!(linking_token);
            answer["existing_providers"] = json!(existing_providers);
            Ok((StatusCode::ACCEPTED, Json(answer)))
        }
        SignedIn::NewUser(user) => {
            tell_of(&app.stores, &user.email).await;
            let mut answer = sso_answer("new_user", &user, "Account created");
            answer["needs_github_linking"] = json!(true);
            Ok((StatusCode::ACCEPTED, Json(answer)))
        }
        SignedIn::PersonalAddress => Err(Refusal::Forbidden(
            "Personal email addresses are not allowed; use a work email address".to_owned(),
        )),
        SignedIn::BelongsToAnother => Err(Refusal::BadRequest(
            "Invalid request: this sign-in belongs to another account".to_owned(),
        )),
    }
}

/// The ways to sign in to the caller's account.
pub(super) async fn my_providers(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<Value>, Refusal> {
    app.open_session().await;
    let providers = app.stores.auth.providers_of(&caller.uid).await?;
    let primary = providers.iter().find(|provider| provider.is_primary);
    let primary = primary.map(provider_json).transpose()?;
    let providers: Vec<Value> = providers
        .iter()
        .map(provider_json)
        .collect::<Result<_, _>>()?;
    Ok(Json(
        json!({ "providers": providers, "primary_provider": primary }),
    ))
}

fn provider_json(provider: &Provider) -> Result<Value, StoreError> {
    let data: Option<Value> = provider
        .provider_data
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| StoreError::refused(Backend::Postgres, error))?;
    Ok(json!({
        "id": provider.id,
        "user_id": provider.user_id,
        "provider_type": provider.provider_type,
        "provider_uid": provider.provider_uid,
        "provider_data": data,
        "is_primary": provider.is_primary,
        "linked_at": provider.linked_at,
        "last_used_at": provider.last_used_at,
    }))
}

fn sso_answer(status: &str, user: &User, message: &str) -> Value {
    json!({
        "status": status,
        "user_id": user.uid,
        "email": user.email,
        "display_name": user.display_name,
        "access_token": null,
        "message": message,
        "linking_token": null,
        "existing_providers": null,
        "needs_github_linking": false,
    })
}

/// Tells the hook of a new account. What it answers changes nothing for the account's owner.
async fn tell_of(stores: &Stores, email: &str) {
    let Some(notifier) = &stores.notifier else {
        return;
    };
    if let Err(error) = notifier.notify(&format!("New signup: {email}")).await {
        tracing::warn!(%error, "a new account was not announced");
    }
}

fn client(peer: SocketAddr, headers: &HeaderMap) -> Client {
    Client {
        ip: peer.ip().to_string(),
        user_agent: headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok()) // not text: as good as none
            .map(str::to_owned),
    }
}

fn without_content_type(mut response: Response) -> Response {
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

fn parse_sso_login(mut body: Body, client: Client) -> Result<SignIn, Refusal> {
    let address = body.text("email");
    let service = body.text("sso_provider");
    let token = body.text("id_token");
    let data = body.optional_object("provider_data");
    body.finish()?;
    if !email::is_address(address.trim()) {
        return Err(Refusal::BadRequest(
            "Invalid request: email is not an email address".to_owned(),
        ));
    }
    // From here on the token's address counts, whatever the body's.
    let identity = id_token::verify(&service, &token).ok_or(Refusal::InvalidIdToken)?;
    let name = data.as_ref().and_then(|data| data.get("name")?.as_str());
    let display_name = name
        .unwrap_or_else(|| email::local_part(&identity.email))
        .to_owned();
    let data = data.map_or_else(
        || json!({ "sub": identity.provider_uid, "email": identity.email }),
        Value::Object,
    );
    Ok(SignIn {
        identity,
        provider_data: data.to_string(),
        display_name,
        client,
    })
}

/// The original reads this body by hand, so that all that is wrong with it is a 400.
fn parse_sign_up(body: &[u8]) -> Result<SignUp, String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Err("The body is not a JSON object".to_owned());
    };
    let uid = id(&fields, "uid")?.ok_or("Missing uid")?;
    let email = text(&fields, "email")?.ok_or("Missing email")?;
    let email = email::normalised(&email);
    if !email::is_address(&email) {
        return Err(format!("Invalid email address: {email}"));
    }
    let has_token = text(&fields, "accessToken")?.is_some();
    let username = text(&fields, "providerUsername")?;
    let github_uid = id(&fields, "githubFirebaseUid")?;
    let link_to = id(&fields, "linkToUserId")?;
    let github = (has_token && username.is_some()).then(|| GitHub {
        provider_uid: github_uid.unwrap_or_else(|| uid.clone()),
        link_to,
    });
    if fields.get("providerData").is_some_and(validation::has_nul) {
        return Err("providerData has a NUL in it".to_owned());
    }
    let mut provider_data = provider_data(&fields);
    if let Some(username) = username {
        provider_data.insert("username".to_owned(), json!(username));
    }
    Ok(SignUp {
        uid,
        email,
        display_name: text(&fields, "displayName")?,
        email_verified: fields.get("emailVerified") == Some(&Value::Bool(true)),
        github,
        provider_data: Value::Object(provider_data).to_string(),
    })
}

/// A text that isn't empty; null is as good as none.
fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.contains('\0') => Err(format!("{name} has a NUL in it")),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("{name} is not a text")),
    }
}

fn id(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    let id = text(fields, name)?;
    match &id {
        Some(id) if id.chars().count() > UID_CHARS_MAX || id.contains(char::is_control) => Err(
            format!("{name} is longer than {UID_CHARS_MAX} characters or not printable"),
        ),
        _ => Ok(id),
    }
}

/// An object, or a list whose first item is one.
fn provider_data(fields: &Map<String, Value>) -> Map<String, Value> {
    let data = match fields.get("providerData") {
        Some(Value::Array(items)) => items.first(),
        other => other,
    };
    data.and_then(Value::as_object).cloned().unwrap_or_default() // anything else says nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign_up(body: &Value) -> Result<SignUp, String> {
        parse_sign_up(body.to_string().as_bytes())
    }

    #[test]
    fn a_sign_up_is_from_github_with_a_token_and_a_name() {
        let plain = sign_up(&json!({ "uid": "u", "email": " A@B.Test ", "accessToken": "t" }))
            .expect("valid");
        assert_eq!((plain.email.as_str(), &plain.github), ("a@b.test", &None));
        let from_github = sign_up(&json!({
            "uid": "u", "email": "a@b.test", "accessToken": "t", "providerUsername": "octo",
            "linkToUserId": "u-1", "providerData": [{ "a": 1 }], "emailVerified": true,
        }))
        .expect("valid");
        assert_eq!(
            from_github.github,
            Some(GitHub {
                provider_uid: "u".to_owned(),
                link_to: Some("u-1".to_owned())
            })
        );
        assert_eq!(from_github.provider_data, r#"{"a":1,"username":"octo"}"#);
        assert!(from_github.email_verified);
    }

    #[test]
    fn what_is_wrong_with_a_sign_up_is_named() {
        for (body, word) in [
            (json!([]), "JSON object"),
            (json!({ "email": "a@b.test" }), "uid"),
            (json!({ "uid": "", "email": "a@b.test" }), "uid"),
            (json!({ "uid": 1, "email": "a@b.test" }), "uid"),
            (json!({ "uid": "a\u{0}", "email": "a@b.test" }), "uid"),
            (
                json!({ "uid": "x".repeat(256), "email": "a@b.test" }),
                "uid",
            ),
            (json!({ "uid": "u" }), "email"),
            (json!({ "uid": "u", "email": "a" }), "email"),
            (
                json!({ "uid": "u", "email": "a@b.test", "displayName": {} }),
                "displayName",
            ),
        ] {
            let error = sign_up(&body).expect_err("wrong");
            assert!(error.contains(word), "{error}");
        }
        assert!(parse_sign_up(b"{").is_err());
    }

    #[test]
    fn names_come_from_the_provider_or_the_address() {
        let client = || Client {
            ip: "127.0.0.1".to_owned(),
            user_agent: None,
        };
        let parsed = |data: Value| {
            let body = json!({
                "email": "other@b.test", "sso_provider": "google",
                "id_token": "id-token-New@B.test", "provider_data": data,
            });
            parse_sso_login(
                Body::parse(body.to_string().as_bytes()).expect("an object"),
                client(),
            )
            .expect("valid")
        };
        let named = parsed(json!({ "name": "Ada" }));
        assert_eq!(named.display_name, "Ada");
        assert_eq!(named.identity.email, "new@b.test");
        let unnamed = parsed(Value::Null);
        assert_eq!(unnamed.display_name, "new");
        assert_eq!(
            unnamed.provider_data,
            r#"{"email":"new@b.test","sub":"google:new@b.test"}"#
        );
    }
}
