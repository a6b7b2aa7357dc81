//! `GET /github/get-branch-list`: a repository's branches, from the cache.
//!
//! A repository that isn't cached is unknown here: asking the code host comes with step 4.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use serde_json::{Value, json};

use super::App;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::validation::Query;

/// The branches that match, whole or a page of them.
pub(super) async fn branch_list(
    State(app): State<App>,
    _caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let mut query = Query::new(query);
    let repo = query.text("repo_name");
    let limit = query.optional_count("limit", 1);
    let offset = query.optional_count("offset", 0).unwrap_or(0);
    let search = query.optional_text("search").unwrap_or_default();
    query.finish()?;
    app.open_session().await;
    let Some(branches) = app.stores.branches.branches(&repo).await? else {
        return Err(Refusal::NotFound(format!("Repository {repo} not found")));
    };
    Ok(Json(page(branches, &search, offset, limit)))
}

fn page(branches: Vec<String>, search: &str, offset: usize, limit: Option<usize>) -> Value {
    let search = search.to_lowercase();
    let matching: Vec<String> = branches
        .into_iter()
        .filter(|branch| branch.to_lowercase().contains(&search))
        .collect();
    let total = matching.len();
    let from = offset.min(total);
    let Some(limit) = limit else {
        return json!({ "branches": matching[from..] });
    };
    let to = from.saturating_add(limit).min(total);
    json!({ "branches": matching[from..to], "has_next_page": to < total, "total_count": total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<String> {
        ["main", "Feature/one", "feature/two", "fix"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn without_a_limit_there_is_no_page() {
        assert_eq!(page(list(), "", 0, None), json!({"branches": list()}));
        assert_eq!(page(list(), "", 3, None), json!({"branches": ["fix"]}));
    }

    #[test]
    fn pages_tell_whether_more_follow() {
        assert_eq!(
            page(list(), "FEATURE", 0, Some(1)),
            json!({"branches": ["Feature/one"], "has_next_page": true, "total_count": 2})
        );
        assert_eq!(
            page(list(), "feature", 1, Some(usize::MAX)),
            json!({"branches": ["feature/two"], "has_next_page": false, "total_count": 2})
        );
        assert_eq!(
            page(list(), "", 9, Some(2)),
            json!({"branches": [], "has_next_page": false, "total_count": 4})
        );
    }
}
