//! `GET /github/user-repos`: the repositories of a user's projects, and those that the code host
//! shows them.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use serde_json::{Value, json};

use super::App;
use super::page::{Page, matches};
use crate::hub::Hub;
use crate::hub::answers::Repository as Hosted;
use crate::hub::error::HubError;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::repositories::{HubAccount, combined, visible_installations};
use crate::validation::Query;

/// The repositories that match, all or a page of them.
pub(super) async fn of_user(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let mut query = Query::new(query);
    let search = query.optional_text("search").unwrap_or_default();
    let limit = query.optional_count("limit", 1);
    let offset = query.optional_count("offset", 0).unwrap_or(0);
    query.finish()?;
    app.open_session().await;
    // The original opens its cache for every route of the code host. This one looks nothing up,
    // so that it goes on without.
    if let Err(error) = app.stores.code_cache.open().await {
        tracing::warn!(%error, "listing repositories without the cache");
    }
    let known = app.stores.repositories.known(&caller.uid).await?;
    let hosted = match (&app.stores.hub, &known.account) {
        (Some(hub), Some(account)) => hosted(hub, account).await?,
        _ => Vec::new(),
    };
    let mut all = combined(hosted, known.projects);
    all.retain(|repository| matches(&repository.full_name, &search));
    let page = Page::of(all, offset, limit);
    Ok(Json(json!({
        "repositories": page.entries,
        "has_next_page": page.has_next,
        "total_count": page.total,
    })))
}

/// The user's organisations, the service's installations for these, and what each of them sees.
async fn hosted(hub: &Hub, account: &HubAccount) -> Result<Vec<Hosted>, HubError> {
    let organisations = hub.organisations(&account.provider_uid).await?;
    let installations = hub.installations().await?;
    let login = account.login.as_deref();
    let visible = visible_installations(installations, &organisations, login);
    hub.repositories(&visible).await
}
