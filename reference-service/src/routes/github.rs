//! `GET /github/get-branch-list` and `/github/project-structure`: from the cache, or from the code
//! host and into the cache.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use serde_json::{Value, json};

use super::App;
use super::page::{Page, matches};
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::repositories::Project;
use crate::stores::code_cache::CodeCacheConnection;
use crate::validation::Query;
use crate::{branch_list, project_structure};

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
    let Some(mut branches) = branches(&app, &repo).await? else {
        return Err(Refusal::NotFound(format!("Repository {repo} not found")));
    };
    branches.retain(|branch| matches(branch, &search));
    let page = Page::of(branches, offset, limit);
    Ok(Json(match limit {
        None => json!({ "branches": page.entries }),
        Some(_) => json!({
            "branches": page.entries,
            "has_next_page": page.has_next,
            "total_count": page.total,
        }),
    }))
}

async fn branches(app: &App, repo: &str) -> Result<Option<Vec<String>>, Refusal> {
    let key = branch_list::key(repo);
    let mut cache = app.stores.code_cache.open().await?;
    if let Some(text) = cache.get(&key).await? {
        return Ok(Some(branch_list::parse(&key, &text)?));
    }
    let Some(hub) = &app.stores.hub else {
        return Ok(None);
    };
    let Some(branches) = hub.branches(repo).await? else {
        return Ok(None);
    };
    keep(&mut *cache, &key, &branch_list::value(&branches)).await;
    Ok(Some(branches))
}

/// What is below a path of one of the caller's projects.
pub(super) async fn structure(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let mut query = Query::new(query);
    let id = query.text("project_id");
    let path = query.optional_text("path").unwrap_or_default();
    query.finish()?;
    let path = project_structure::exact_path(&path);
    app.open_session().await;
    let Some(project) = app.stores.repositories.project(&id, &caller.uid).await? else {
        return Err(Refusal::NotFound(format!("Project {id} not found")));
    };
    match text(&app, &id, &project, path).await? {
        Some(text) => Ok(Json(json!({ "structure": text }))),
        None => Err(Refusal::NotFound(format!(
            "Project {id} has no folder `{path}`"
        ))),
    }
}

async fn text(
    app: &App,
    id: &str,
    project: &Project,
    path: &str,
) -> Result<Option<String>, Refusal> {
    let key = project_structure::key(id, path);
    let mut cache = app.stores.code_cache.open().await?;
    if let Some(text) = cache.get(&key).await? {
        return Ok(Some(text));
    }
    let Some(hub) = &app.stores.hub else {
        return Ok(None);
    };
    let tree = hub.tree(&project.repo_name, &project.branch_name).await?;
    let Some(text) = tree.and_then(|tree| project_structure::text(&tree, path)) else {
        return Ok(None);
    };
    keep(&mut *cache, &key, &text).await;
    Ok(Some(text))
}

/// Keeps what the code host has told. Its answer is good without the cache, too.
async fn keep(cache: &mut dyn CodeCacheConnection, key: &str, value: &str) {
    if let Err(error) = cache.keep(key, value).await {
        tracing::warn!(%error, key, "not kept");
    }
}
