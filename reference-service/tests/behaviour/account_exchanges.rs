//! What is asked of sharing, signing up and signing in: each status that the API promises.

use super::exchanges::Exchange;

const SHARE: &str = "/api/v1/conversations/share";
const EMAILS: &str = "/api/v1/conversations/{new}/shared-emails";
const ACCESS: &str = "/api/v1/conversations/{new}/access";
const SIGN_UP: &str = "/api/v1/signup";
const SSO: &str = "/api/v1/sso/login";
const ME: &str = "/api/v1/providers/me";
const OWNER: &str = "Bearer token-u-3";

pub(crate) fn sharing() -> Vec<Exchange> {
    let create =
        r#"{"user_id":"u-3","title":"t","status":"active","project_ids":["p-1"],"agent_ids":[]}"#;
    let share = |body| Exchange::json(SHARE, body).sent_by(OWNER);
    let emails = || Exchange::get(EMAILS).sent_by(OWNER);
    let withdraw = |body| Exchange::delete(ACCESS, body).sent_by(OWNER);
    let good = r#"{"conversation_id":"{new}","recipientEmails":["b@example.test","a@example.test","b@example.test"],"visibility":"private"}"#;
    vec![
        Exchange::json("/api/v1/conversations", create).sent_by(OWNER),
        emails(),
        withdraw(r#"{"emails":["a@example.test"]}"#),
        share(good),
        emails(),
        // Again, with one more, and private without saying so.
        share(
            r#"{"conversation_id":"{new}","recipientEmails":["c@example.test","a@example.test"]}"#,
        ),
        emails(),
        share(r#"{"conversation_id":"{new}","visibility":"public"}"#),
        share(r#"{"conversation_id":"{new}","recipientEmails":null,"visibility":null}"#),
        emails(),
        withdraw(r#"{"emails":["a@example.test","nobody@example.test"]}"#),
        emails(),
        withdraw(r#"{"emails":["a@example.test"]}"#),
        withdraw(r#"{"emails":["b@example.test","c@example.test"]}"#),
        emails(),
        // What is wrong with the request.
        share(r#"{"conversation_id":"{new}","recipientEmails":["a@example.test","not one"]}"#),
        share(r#"{"conversation_id":"{new}","recipientEmails":[""]}"#),
        share(r#"{"conversation_id":"{new}","visibility":"PUBLIC"}"#),
        share(r#"{"recipientEmails":[]}"#),
        share(""),
        withdraw(r#"{"emails":[]}"#),
        withdraw(r#"{"emails":["not one"]}"#),
        withdraw("{}"),
        // Not there, not the caller's, and not a known caller.
        share(r#"{"conversation_id":"c-404","recipientEmails":["a@example.test"]}"#),
        Exchange::json(SHARE, good),
        Exchange::get("/api/v1/conversations/c-404/shared-emails"),
        Exchange::get(EMAILS),
        Exchange::delete(ACCESS, r#"{"emails":["a@example.test"]}"#),
        Exchange::json(SHARE, good).sent_by("Bearer wrong"),
        Exchange::get(EMAILS).sent_by("Bearer wrong"),
        Exchange::delete(ACCESS, r#"{"emails":[]}"#).sent_by("Bearer wrong"),
    ]
}

pub(crate) fn signing_up() -> Vec<Exchange> {
    let github = r#"{"uid":"gh-7","email":"u-free@example.test","accessToken":"t","providerUsername":"octo","githubFirebaseUid":"gh-7","linkToUserId":"u-free"}"#;
    vec![
        // Known, with and without GitHub.
        Exchange::json(SIGN_UP, r#"{"uid":"u-3","email":"u-3@example.test"}"#),
        Exchange::json(
            "/api/v1/signup/",
            r#"{"uid":"u-free","email":"u-free@example.test"}"#,
        ),
        // New, then known.
        Exchange::json(
            SIGN_UP,
            r#"{"uid":"new-1","email":"New-1@Example.test","displayName":"Ada","emailVerified":true,"providerData":[{"locale":"en"}]}"#,
        ),
        Exchange::json(SIGN_UP, r#"{"uid":"new-1","email":"new-1@example.test"}"#),
        // The address, or the account at the provider, is somebody's.
        Exchange::json(SIGN_UP, r#"{"uid":"new-2","email":"u-3@example.test"}"#),
        // GitHub: unknown, linked, and to be linked.
        Exchange::json(
            SIGN_UP,
            r#"{"uid":"gh-404","email":"gh@example.test","accessToken":"t","providerUsername":"octo"}"#,
        ),
        Exchange::json(
            SIGN_UP,
            r#"{"uid":"x","email":"u-3@example.test","accessToken":"t","providerUsername":"octo","githubFirebaseUid":"github:u-3"}"#,
        ),
        Exchange::json(
            SIGN_UP,
            r#"{"uid":"x","email":"x@example.test","accessToken":"t","providerUsername":"octo","linkToUserId":"nobody"}"#,
        ),
        Exchange::json(
            SIGN_UP,
            r#"{"uid":"x","email":"x@example.test","accessToken":"t","providerUsername":"octo","githubFirebaseUid":"github:u-3","linkToUserId":"u-free"}"#,
        ),
        Exchange::json(SIGN_UP, github),
        Exchange::json(SIGN_UP, github),
        Exchange::json(SIGN_UP, r#"{"uid":"u-free","email":"u-free@example.test"}"#),
        // What is wrong with the request.
        Exchange::json(SIGN_UP, ""),
        Exchange::json(SIGN_UP, "[]"),
        Exchange::json(SIGN_UP, r#"{"email":"a@example.test"}"#),
        Exchange::json(SIGN_UP, r#"{"uid":"x"}"#),
        Exchange::json(SIGN_UP, r#"{"uid":"x","email":"not one"}"#),
        Exchange::json(SIGN_UP, r#"{"uid":7,"email":"a@example.test"}"#),
    ]
}

pub(crate) fn signing_in() -> Vec<Exchange> {
    let sign_in = |body| Exchange::json(SSO, body);
    vec![
        // A user who has everything.
        sign_in(
            r#"{"email":"u-4@example.test","sso_provider":"google","id_token":"id-token-u-4@example.test"}"#,
        ),
        Exchange::json(
            "/api/v1/sso/login/",
            r#"{"email":"u-4@example.test","sso_provider":"Google","id_token":"id-token-U-4@example.test","provider_data":null}"#,
        ),
        // Signed up above, without GitHub; then never by this provider.
        sign_in(
            r#"{"email":"new-1@example.test","sso_provider":"google","id_token":"id-token-new-1@example.test"}"#,
        ),
        sign_in(
            r#"{"email":"u-4@example.test","sso_provider":"azure","id_token":"id-token-u-4@example.test","provider_data":{"oid":"o"}}"#,
        ),
        // New, then known and without GitHub. The token's address counts.
        sign_in(
            r#"{"email":"other@example.test","sso_provider":"okta","id_token":"id-token-New-3@example.test","provider_data":{"name":"Grace"}}"#,
        ),
        sign_in(
            r#"{"email":"new-3@example.test","sso_provider":"okta","id_token":"id-token-new-3@example.test"}"#,
        ),
        sign_in(
            r#"{"email":"a@gmail.com","sso_provider":"google","id_token":"id-token-a@gmail.com"}"#,
        ),
        // Tokens and services that aren't good.
        sign_in(r#"{"email":"u-4@example.test","sso_provider":"google","id_token":"wrong"}"#),
        sign_in(
            r#"{"email":"u-4@example.test","sso_provider":"github","id_token":"id-token-u-4@example.test"}"#,
        ),
        sign_in(
            r#"{"email":"not one","sso_provider":"google","id_token":"id-token-u-4@example.test"}"#,
        ),
        sign_in(r#"{"email":"u-4@example.test","provider_data":[]}"#),
        sign_in(""),
        Exchange::get(ME).sent_by("Bearer token-u-4"),
        Exchange::get("/api/v1/providers/me/").sent_by("Bearer token-u-5"),
        Exchange::get(ME),
        Exchange::get(ME).sent_by("Bearer wrong"),
        Exchange::get(SIGN_UP),
    ]
}
