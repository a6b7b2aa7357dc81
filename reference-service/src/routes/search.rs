//! `POST /search`, in v1 and v2: a project's code by words.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::App;
use super::json_text::JsonText;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::search::{Hit, Search};
use crate::validation::{Body, FieldError};

/// The best matches, for who signs in.
pub(super) async fn v1(
    State(app): State<App>,
    caller: Caller,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let search = parse(body.object()?)?;
    app.open_session().await;
    answer(&app, &caller, &search).await
}

/// The best matches, for who has a key.
pub(super) async fn v2(
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let caller = app.caller_by_key(&headers).await?;
    let search = parse(body.object()?)?;
    answer(&app, &caller, &search).await
}

async fn answer(app: &App, caller: &Caller, search: &Search) -> Result<Json<Value>, Refusal> {
    // Somebody else's project is not distinguished from none.
    let Some(found) = app.stores.search.find(&caller.uid, search).await? else {
        return Err(Refusal::NotFound("Project not found".to_owned()));
    };
    let results: Vec<Value> = search.best(found).iter().map(Hit::to_json).collect();
    Ok(Json(json!({ "results": results })))
}

fn parse(mut body: Body) -> Result<Search, Vec<FieldError>> {
    let project_id = body.text_not_blank("project_id");
    let query = body.text_not_blank("query");
    body.finish()?;
    Ok(Search::new(project_id, &query).expect("a query that isn't blank has words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_and_query_are_needed() {
        let good = br#"{"project_id":"p-1","query":" a "}"#;
        assert!(parse(Body::parse(good).expect("an object")).is_ok());
        for (bad, fields) in [
            ("{}", 2),
            (r#"{"project_id":"p-1"}"#, 1),
            (r#"{"project_id":"p-1","query":" \t"}"#, 1),
            (r#"{"project_id":"","query":"a"}"#, 1),
            (r#"{"project_id":7,"query":null}"#, 2),
            (r#"{"project_id":"p-1","query":"\u0000"}"#, 1),
        ] {
            let body = Body::parse(bad.as_bytes()).expect("an object");
            assert_eq!(parse(body).expect_err(bad).len(), fields, "{bad}");
        }
    }
}
