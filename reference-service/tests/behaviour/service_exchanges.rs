//! What is asked of the routes that came with steps 4 and 5: signing in by password, issues and
//! search. The FastAPI example has none of them.

use super::exchanges::Exchange;

const LOGIN: &str = "/api/v1/login";
const SEARCH: &str = "/api/v1/search";
const SEARCH_V2: &str = "/api/v2/search";
/// Of u-0 and u-3, and one that is nobody's.
const KEY_0: &str = "sk-0000000000000000000000000000000000000000000000000000000000000000";
const KEY_3: &str = "sk-0000000000000000000000000000000000000000000000000000000000000003";
const NO_KEY: &str = "sk-ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

pub(crate) fn all() -> Vec<Exchange> {
    [login(), issues(), search()]
        .into_iter()
        .flatten()
        .collect()
}

fn login() -> Vec<Exchange> {
    vec![
        Exchange::json(
            LOGIN,
            r#"{"email":"u-3@example.test","password":"password"}"#,
        ),
        Exchange::json(
            "/api/v1/login/",
            r#"{"email":"u-4@example.test","password":"password","remember":true}"#,
        ),
        Exchange::json(LOGIN, r#"{"email":"u-3@example.test","password":"wrong"}"#),
        Exchange::json(
            LOGIN,
            r#"{"email":"nobody@elsewhere.test","password":"password"}"#,
        ),
        Exchange::json(LOGIN, r#"{"email":"","password":""}"#),
        Exchange::json(LOGIN, r#"{"email":"u-3@example.test"}"#),
        Exchange::json(LOGIN, r#"{"email":7,"password":null}"#),
        Exchange::json(LOGIN, r#"{"email":"a\u0000","password":"x"}"#),
        Exchange::json(LOGIN, "[]"),
        Exchange::json(LOGIN, "{"),
        Exchange::json(LOGIN, ""),
        Exchange::form(LOGIN, "email=u-3%40example.test&password=password"),
        // Nobody has to be signed in for it.
        Exchange::json(
            LOGIN,
            r#"{"email":"u-3@example.test","password":"password"}"#,
        )
        .sent_by("Bearer wrong"),
        Exchange::get(LOGIN),
    ]
}

fn issues() -> Vec<Exchange> {
    vec![
        Exchange::get("/api/v1/integrations/issues/ENG-2"),
        Exchange::get("/api/v1/integrations/issues/ENG-3").sent_by("Bearer token-u-3"),
        Exchange::get("/api/v1/integrations/issues/ENG%2D2"),
        Exchange::get("/api/v1/integrations/issues/ENG-404"),
        Exchange::get("/api/v1/integrations/issues/a%20%22b%22"),
        Exchange::get("/api/v1/integrations/issues/a%00"),
        Exchange::get("/api/v1/integrations/issues/%FF"),
        Exchange::get("/api/v1/integrations/issues/ENG-2").sent_by("Bearer wrong"),
        Exchange::json("/api/v1/integrations/issues/ENG-2", "{}"),
    ]
}

fn search() -> Vec<Exchange> {
    vec![
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":"open_session"}"#),
        Exchange::json(
            "/api/v1/search/",
            r#"{"project_id":"p-1","query":" OPEN  session open "}"#,
        ),
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":"nothing has this"}"#),
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":"%"}"#),
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":"\\"}"#),
        Exchange::json(
            SEARCH,
            r#"{"project_id":"p-1","query":"'; DROP TABLE projects; --"}"#,
        ),
        // Not the caller's, and not there.
        Exchange::json(SEARCH, r#"{"project_id":"p-2","query":"open"}"#),
        Exchange::json(SEARCH, r#"{"project_id":"p-2","query":"write queue"}"#)
            .sent_by("Bearer token-u-1"),
        Exchange::json(SEARCH, r#"{"project_id":"p-404","query":"open"}"#),
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":" \t"}"#),
        Exchange::json(SEARCH, r#"{"project_id":"","query":"a"}"#),
        Exchange::json(SEARCH, r#"{"project_id":["p-1"]}"#),
        Exchange::json(SEARCH, "{"),
        Exchange::json(SEARCH, ""),
        Exchange::json(SEARCH, r#"{"project_id":"p-1","query":"open"}"#).sent_by("Bearer wrong"),
        Exchange::get(SEARCH),
        Exchange::json(SEARCH_V2, r#"{"project_id":"p-1","query":"open_session"}"#)
            .sent_with_key(KEY_0),
        Exchange::json("/api/v2/search/", r#"{"project_id":"p-4","query":"cache"}"#)
            .sent_with_key(KEY_3),
        Exchange::json(SEARCH_V2, r#"{"project_id":"p-1","query":"open"}"#).sent_with_key(KEY_3),
        Exchange::json(SEARCH_V2, r#"{"project_id":"p-1"}"#).sent_with_key(KEY_0),
        Exchange::json(SEARCH_V2, "{").sent_with_key(KEY_0),
        Exchange::json(SEARCH_V2, r#"{"project_id":"p-1","query":"open"}"#).sent_with_key(NO_KEY),
        Exchange::json(SEARCH_V2, "{").sent_with_key("sk-"),
        // A token is no key.
        Exchange::json(SEARCH_V2, r#"{"project_id":"p-1","query":"open"}"#)
            .sent_by("Bearer token-u-0"),
        Exchange::get(SEARCH_V2).sent_with_key(KEY_0),
    ]
}
